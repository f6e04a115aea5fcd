import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { existingOrNew } from '../storage/secret-file.ts'

/** Whoever has this file can tell which session a name in the audit trail belongs to, but only by the id of the session. */
const FILE = 'audit-session-key'
/** 132 bits: names of different sessions never meet. */
const NAME_CHARS = 22

/**
 * What the audit trail calls a session: HMAC-SHA-256 of its id under a key in the data directory, in base64url. The records of
 * one session have the same name, also after a restart, and nobody gets the id from it.
 *
 * @throws Error when the key can neither be read nor made
 */
export function sessionNames(dataDir: string): (session: string) => string {
  const key = readFileSync(existingOrNew(join(dataDir, FILE)), 'utf8').trim()
  if (key === '') throw new Error(`${join(dataDir, FILE)} is empty`)
  return (session) => createHmac('sha256', key).update(session).digest('base64url').slice(0, NAME_CHARS)
}
