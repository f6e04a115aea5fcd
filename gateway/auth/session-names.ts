import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { existingOrNew } from '../storage/secret-file.ts'

/** Whoever has this file and the id of a session finds its records. */
const FILE = 'audit-session-key'
/** 132 bits. */
const NAME_CHARS = 22

/**
 * Names sessions for the audit trail: HMAC-SHA-256 of the id. Nobody gets the id from it.
 *
 * @throws Error when the key can neither be read nor made
 */
export function sessionNames(dataDir: string): (session: string) => string {
  const key = readFileSync(existingOrNew(join(dataDir, FILE)), 'utf8').trim()
  if (key === '') throw new Error(`${join(dataDir, FILE)} is empty`)
  return (session) => createHmac('sha256', key).update(session).digest('base64url').slice(0, NAME_CHARS)
}
