import { hash } from 'node:crypto'
import { join } from 'node:path'
import { existingOrNew } from '../storage/secret-file.ts'
import type { Fault } from './faults.ts'
import { loadFile, type ParseFile, type ReadFile } from './load-file.ts'
import type { Settings } from './settings.ts'

/** Too long to guess, and valid in a header field. */
const SECRET = /^[\x21-\x7e]{32,256}$/

/** The secret that the gateway proves itself with to the upstreams. */
export const parseUpstreamSecret = secretLine('the secret of gateway and service')
/** The secret from which the keys of TLS session tickets are made. */
export const parseTicketSecret = secretLine('the secret of the session tickets')
/** The bearer token of the admin listener. */
export const parseAdminToken = secretLine('the token of the admin listener')

/** The key of the pseudonyms in the audit trail. */
const parseMaskKey = secretLine('the key of masked parameters')

/** The key of what is kept for idempotency keys. */
const parseIdempotencyKey = secretLine('the key of idempotency')

/** Faults of the key that rows with `idempotency` need. */
export function idempotencyKeyFaults(
  { idempotencyKeyFile }: Pick<Settings, 'idempotencyKeyFile'>,
  readFile?: ReadFile,
): readonly Fault[] {
  if (idempotencyKeyFile === undefined) return []
  return (
    loadFile(idempotencyKeyFile, parseIdempotencyKey, { readFile, namedBy: '"idempotencyKeyFile"' }).faults ??
    []
  )
}

/** Faults of the key that rows with `mask` need. */
export function maskKeyFaults(
  { maskKeyFile, routes, configFile }: Pick<Settings, 'maskKeyFile' | 'routes' | 'configFile'>,
  hasStore: boolean,
  readFile?: ReadFile,
): readonly Fault[] {
  if (maskKeyFile !== undefined)
    return loadFile(maskKeyFile, parseMaskKey, { readFile, namedBy: '"maskKeyFile"' }).faults ?? []
  if (!hasStore || !routes.some(({ mask }) => mask)) return []
  const reason = 'is missing: gateways that share a store need one key for what rows "mask"'
  return [{ file: configFile, path: '$.maskKeyFile', reason }]
}

/** Reads the key of masked parameters, or makes one in the data directory. @throws Error when there is no valid key */
export function readMaskKey({ maskKeyFile, dataDir }: Pick<Settings, 'maskKeyFile' | 'dataDir'>): string {
  return readKey(maskKeyFile ?? existingOrNew(join(dataDir, 'mask-key')), parseMaskKey)
}

/** Reads the key of idempotency, or makes one in the data directory. @throws Error when there is no valid key */
export function readIdempotencyKey({
  idempotencyKeyFile,
  dataDir,
}: Pick<Settings, 'idempotencyKeyFile' | 'dataDir'>): string {
  return readKey(idempotencyKeyFile ?? existingOrNew(join(dataDir, 'idempotency-key')), parseIdempotencyKey)
}

function readKey(file: string, parse: ParseFile<string>): string {
  const { value, faults } = loadFile(file, parse)
  if (faults !== undefined) throw new Error(faults.map(({ reason }) => `${file} ${reason}`).join())
  return value.value
}

/** Parses the file of a secret: one line, which may end with a line end. The fault does not repeat it. */
function secretLine(what: string): ParseFile<string> {
  return (file, text) => {
    const secret = text.replace(/\r?\n$/, '')
    if (SECRET.test(secret)) return { value: secret }
    const reason = `must hold one line of 32 to 256 visible ASCII characters, ${what}`
    return { faults: [{ file, path: '$', reason }] }
  }
}

/** Tells secrets apart. Nobody finds one by it: a secret is too long to guess. */
export function fingerprint(secret: string): { readonly sha256: string } {
  return { sha256: hash('sha256', secret).slice(0, 16) }
}
