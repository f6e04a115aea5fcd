import { ENVIRONMENT, type Fault, type Parsed } from '../faults.ts'
import type { Overrides } from '../json/json-file.ts'
import { variableOf } from '../json/key-names.ts'
import type { TlsKeys, TlsSettings } from '../settings.ts'

/** The keys, and which of them are variables. */
interface TlsSources {
  readonly configFile: string
  readonly merged: TlsKeys | undefined
  readonly overrides: Overrides
}

/** Undefined when neither the file nor the environment sets any key. */
export function completeTls(sources: TlsSources): Parsed<TlsSettings | undefined> {
  const { merged = {} } = sources
  if (Object.keys(merged).length === 0) return { value: undefined }
  const { port, certFile, keyFile, clientCaFile, clientCrlFile, ticketKeyFile, ocspFetch = false } = merged
  const faults: Fault[] = []
  for (const key of ['port', 'certFile', 'keyFile'] as const) {
    if (merged[key] !== undefined) continue
    const reason = 'is missing: an HTTPS listener needs a port, a certificate and a key'
    faults.push({ ...tlsPlace(sources, key), reason })
  }
  if (clientCrlFile !== undefined && clientCaFile === undefined) {
    const reason = 'has no effect without a client CA: set one, or remove the list'
    faults.push({ ...tlsPlace(sources, 'clientCrlFile'), reason })
  }
  if (ticketKeyFile !== undefined && clientCaFile !== undefined) {
    const reason =
      'has no effect with a client CA: sessions of clients with certificates are not resumed; remove one of the two'
    faults.push({ ...tlsPlace(sources, 'ticketKeyFile'), reason })
  }
  if (ocspFetch && merged.ocspFile !== undefined) {
    const reason = 'must not be true with an OCSP file: choose one of the two'
    faults.push({ ...tlsPlace(sources, 'ocspFetch'), reason })
  }
  if (faults.length > 0 || port === undefined || certFile === undefined || keyFile === undefined) {
    return { faults }
  }
  return { value: { ...merged, port, certFile, keyFile, ocspFetch } }
}

/** Where a key is set. For a missing key: the environment if it sets any of them, else the file. */
function tlsPlace(sources: TlsSources, key: keyof TlsSettings): Pick<Fault, 'file' | 'path'> {
  const { configFile, merged, overrides } = sources
  const path = `$.tls.${key}`
  const isMissing = merged?.[key] === undefined
  const inVariable =
    overrides.has(path) || (isMissing && [...overrides.keys()].some((one) => one.startsWith('$.tls.')))
  return inVariable ? { file: ENVIRONMENT, path: variableOf(`tls.${key}`) } : { file: configFile, path }
}
