import { ENVIRONMENT, type Fault, type Parsed } from '../faults.ts'
import type { Overrides } from '../json/json-file.ts'
import { variableOf } from '../json/key-names.ts'
import type { TlsKeys, TlsSettings } from '../settings.ts'

interface TlsSources {
  readonly configFile: string
  readonly merged: TlsKeys | undefined
  readonly overrides: Overrides
}

/** @returns undefined when no key of `tls` is set */
export function completeTls(sources: TlsSources): Parsed<TlsSettings | undefined> {
  const { merged = {} } = sources
  if (Object.keys(merged).length === 0) return { value: undefined }
  const { port, certFile, keyFile, clientCaFile, clientCrlFile, clientOcsp, ticketKeyFile } = merged
  const { ocspFetch = false } = merged
  const faults: Fault[] = []
  const refuse = (key: keyof TlsSettings, reason: string) =>
    faults.push({ ...tlsPlace(sources, key), reason })
  for (const key of ['port', 'certFile', 'keyFile'] as const)
    if (merged[key] === undefined)
      refuse(key, 'is missing: an HTTPS listener needs a port, a certificate and a key')
  if (clientCrlFile !== undefined && clientCaFile === undefined)
    refuse('clientCrlFile', 'has no effect without a client CA: set one, or remove the list')
  if (clientOcsp !== undefined && clientOcsp !== 'off' && clientCaFile === undefined)
    refuse('clientOcsp', 'has no effect without a client CA: set one, or remove the key')
  if (ticketKeyFile !== undefined && clientCaFile !== undefined) {
    const reason = 'sessions of clients with certificates are not resumed; remove one of the two'
    refuse('ticketKeyFile', `has no effect with a client CA: ${reason}`)
  }
  if (ocspFetch && merged.ocspFile !== undefined)
    refuse('ocspFetch', 'must not be true with an OCSP file: choose one of the two')
  if (faults.length > 0 || port === undefined || certFile === undefined || keyFile === undefined) {
    return { faults }
  }
  return { value: { ...merged, port, certFile, keyFile, ocspFetch } }
}

/** The place of a key. A missing key belongs to the environment if a variable sets a key of `tls`, else to the file. */
function tlsPlace(sources: TlsSources, key: keyof TlsSettings): Pick<Fault, 'file' | 'path'> {
  const { configFile, merged, overrides } = sources
  const path = `$.tls.${key}`
  const isMissing = merged?.[key] === undefined
  const inVariable =
    overrides.has(path) || (isMissing && [...overrides.keys()].some((one) => one.startsWith('$.tls.')))
  return inVariable ? { file: ENVIRONMENT, path: variableOf(`tls.${key}`) } : { file: configFile, path }
}
