import type { Fault, Parsed } from '../faults.ts'
import { variableOf } from '../json/key-names.ts'
import type { TlsKeys, TlsSettings } from '../settings.ts'

/** The keys from the file and from the environment. */
export interface TlsSources {
  readonly configFile: string
  readonly written: TlsKeys | undefined
  readonly environment: TlsKeys | undefined
}

/** Merges both; the environment overrides the file. Undefined when neither sets any key. */
export function completeTls(sources: TlsSources): Parsed<TlsSettings | undefined> {
  const merged: TlsKeys = { ...sources.written, ...sources.environment }
  if (Object.keys(merged).length === 0) return { value: undefined }
  const {
    port,
    certFile,
    keyFile,
    clientCaFile,
    clientCrlFile,
    ticketKeyFile,
    ocspFile,
    ocspFetch = false,
  } = merged
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
  if (ocspFetch && ocspFile !== undefined) {
    const reason = 'must not be true with an OCSP file: choose one of the two'
    faults.push({ ...tlsPlace(sources, 'ocspFetch'), reason })
  }
  if (faults.length > 0 || port === undefined || certFile === undefined || keyFile === undefined) {
    return { faults }
  }
  return {
    value: { port, certFile, keyFile, clientCaFile, clientCrlFile, ticketKeyFile, ocspFile, ocspFetch },
  }
}

/** Where a key is set. For a missing key: the environment if it sets any of them, else the file. */
export function tlsPlace(sources: TlsSources, key: keyof TlsSettings): Pick<Fault, 'file' | 'path'> {
  const { configFile, written, environment } = sources
  const inFile = environment === undefined || (written?.[key] !== undefined && environment[key] === undefined)
  return inFile
    ? { file: configFile, path: `$.tls.${key}` }
    : { file: 'environment', path: variableOf(`tls.${key}`) }
}
