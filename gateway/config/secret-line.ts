import { hash } from 'node:crypto'
import { join } from 'node:path'
import { existingOrNew } from '../storage/secret-file.ts'
import type { Fault } from './faults.ts'
import { LINE_END, loadFile, type ParseFile } from './load-file.ts'
import type { Settings } from './settings.ts'

/** Too long to guess, and valid in a header field. */
const SECRET = /^[\x21-\x7e]{32,256}$/

export const parseUpstreamSecret = secretLine('the secret of gateway and service')
export const parseTicketSecret = secretLine('the secret of the session tickets')
export const parseAdminToken = secretLine('the token of the admin listener')
export const parseMaskKey = secretLine('the key of masked parameters')

export const parseIdempotencyKeys: ParseFile<readonly string[]> = (file, text) => {
  const keys = text.replace(LINE_END, '').split(/\r?\n/)
  if (keys.every((key) => SECRET.test(key))) return { value: keys }
  const reason =
    'must hold lines of 32 to 256 visible ASCII characters: the key of idempotency, then earlier keys'
  return { faults: [{ file, path: '$', reason }] }
}

/** Keys that gateways with one store must share if a row has the policy. */
const SHARED_KEYS = [
  ['mask', 'maskKeyFile', 'need one key for the parameters that rows "mask"'],
  ['idempotency', 'idempotencyKeyFile', 'need one key for "idempotency" of rows'],
] as const

export function missingKeyFaults(
  settings: Pick<Settings, 'maskKeyFile' | 'idempotencyKeyFile' | 'routes' | 'configFile'>,
  hasStore: boolean,
): readonly Fault[] {
  return SHARED_KEYS.flatMap(([policy, key, need]) => {
    const { [key]: file, routes, configFile } = settings
    if (!hasStore || file !== undefined || !routes.some((row) => row[policy])) return []
    return [{ file: configFile, path: `$.${key}`, reason: `is missing: gateways that share a store ${need}` }]
  })
}

/** Replaces `existingOrNew` in commands, because a key that a command made would not be the gateway's. */
export const existingOnly = (file: string): string => file

/** Reads the key, or makes one in the data directory. @throws Error when there is no valid key */
export function readMaskKey(
  { maskKey, dataDir }: Pick<Settings, 'maskKey' | 'dataDir'>,
  fileAt = existingOrNew,
): string {
  return maskKey ?? readKey(fileAt(join(dataDir, 'mask-key')), parseMaskKey)
}

/** Reads the keys, or makes one in the data directory. @throws Error when there is no valid key */
export function idempotencyKeysOf(
  { idempotencyKeys, dataDir }: Pick<Settings, 'idempotencyKeys' | 'dataDir'>,
  fileAt = existingOrNew,
): readonly string[] {
  return idempotencyKeys ?? readKey(fileAt(join(dataDir, 'idempotency-key')), parseIdempotencyKeys)
}

function readKey<T>(file: string, parse: ParseFile<T>): T {
  const { value, faults } = loadFile(file, parse)
  if (faults !== undefined) throw new Error(faults.map(({ reason }) => `${file} ${reason}`).join())
  return value.value
}

/** The fault does not repeat the line. */
function secretLine(what: string): ParseFile<string> {
  return (file, text) => {
    const secret = text.replace(LINE_END, '')
    if (SECRET.test(secret)) return { value: secret }
    const reason = `must hold one line of 32 to 256 visible ASCII characters, ${what}`
    return { faults: [{ file, path: '$', reason }] }
  }
}

/** A short hash that tells secrets apart. It helps nobody to find a secret, which is too long to guess. */
export function fingerprint(secret: string): { readonly sha256: string } {
  return { sha256: hash('sha256', secret).slice(0, 16) }
}
