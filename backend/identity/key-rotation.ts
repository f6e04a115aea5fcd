import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../database/database.ts'
import { forgetExposure, isExposed } from '../database/private-directory.ts'
import { type SigningKeys, storeNewKey } from './keys.ts'
import { ACCESS_TOKEN_SECONDS } from './session-tokens.ts'

/** A new key is published this long before it signs: twice the 5 minutes after which the gateway reads keys again. */
export const PUBLISHED_AHEAD_MS = 10 * 60 * 1000

/** An old key stays published this long after it last signs: the life of a token and 5 minutes for differing clocks. */
export const PUBLISHED_AFTER_MS = (ACCESS_TOKEN_SECONDS + 300) * 1000

/** How often a process looks for keys of other processes and for a due rotation. */
export const LOOK_EVERY_MS = 30_000
export const ASKED_EVERY_MS = 1000

const ROTATION_LOCK = 7_310_515

/** `keys:rotate` asks the backend by this file to rotate, because only one process can open an embedded database. */
const REQUEST_FILE = 'rotate-keys.request'

/** `pending`: a new key is published and does not sign yet. `early`: the newest key is younger than `olderThanMs`. */
export type Rotation =
  | { readonly outcome: 'started' | 'pending'; readonly kid: string; readonly signsFrom: Date }
  | { readonly outcome: 'early' }

/**
 * Starts a rotation. The new key is published at once and signs after {@link PUBLISHED_AHEAD_MS}; the old one is dropped
 * {@link PUBLISHED_AFTER_MS} later. Only one of several simultaneous calls starts one.
 *
 * @param olderThanMs starts it only when the newest key is older
 */
export function rotateSigningKeys(
  database: Database,
  { now, olderThanMs }: { readonly now: Date; readonly olderThanMs?: number | undefined },
): Promise<Rotation> {
  return database.transaction(async (transaction): Promise<Rotation> => {
    await transaction.query('SELECT pg_advisory_xact_lock($1)', [ROTATION_LOCK])
    // A time after `notLater` was stored before the clock was set back. Clocks of other processes may be a little ahead.
    const notLater = new Date(now.getTime() + 2 * PUBLISHED_AHEAD_MS)
    if (olderThanMs !== undefined) {
      const younger = await transaction.query(
        'SELECT 1 AS younger FROM signing_keys WHERE created_at > $1 AND created_at <= $2 LIMIT 1',
        [new Date(now.getTime() - olderThanMs), notLater],
      )
      if (younger.length > 0) return { outcome: 'early' }
    }
    const [pending] = await transaction.query<{ kid: string; signsFrom: Date }>(
      `SELECT kid, signs_from AS "signsFrom" FROM signing_keys
        WHERE signs_from > $1 AND signs_from <= $2 AND signs_until IS NULL ORDER BY signs_from DESC, kid LIMIT 1`,
      [now, notLater],
    )
    if (pending !== undefined) return { outcome: 'pending', ...pending }
    const signsFrom = new Date(now.getTime() + PUBLISHED_AHEAD_MS)
    await transaction.query(
      `UPDATE signing_keys SET signs_from = least(signs_from, $3), published_until = $2,
              signs_until = CASE WHEN signs_until IS NULL THEN $1 ELSE $3 END
        WHERE signs_until IS NULL OR signs_until > $1`,
      [signsFrom, new Date(signsFrom.getTime() + PUBLISHED_AFTER_MS), now],
    )
    return { outcome: 'started', kid: await storeNewKey(transaction, { now, signsFrom }), signsFrom }
  })
}

export interface KeyUpkeep {
  readonly database: Database
  readonly keys: SigningKeys
  readonly clock: () => Date
  readonly logger: FastifyBaseLogger
  readonly dataDirectory: string
  readonly rotateAfterMs: number
}

/** Loads keys of other processes, and starts a rotation when one is requested or due. */
export async function keepKeys(upkeep: KeyUpkeep): Promise<void> {
  const { database, keys, clock, logger, dataDirectory, rotateAfterMs } = upkeep
  const isAsked = isRotationAsked(dataDirectory)
  const exposed = isExposed(dataDirectory)
  const olderThanMs = isAsked || exposed ? undefined : rotateAfterMs
  const rotation = await rotateSigningKeys(database, { now: clock(), olderThanMs })
  if (isAsked) rmSync(join(dataDirectory, REQUEST_FILE), { force: true })
  if (rotation.outcome === 'started' || isAsked) logger.info({ rotation }, rotationText(rotation))
  // A pending key may have been exposed too. Then a later check starts another rotation.
  if (exposed && rotation.outcome !== 'pending') forgetExposure(dataDirectory)
  await keys.refresh()
}

/** Requests a rotation from the process that uses the database in `dataDirectory`. */
export function askForRotation(dataDirectory: string): void {
  writeFileSync(join(dataDirectory, REQUEST_FILE), '')
}

export function isRotationAsked(dataDirectory: string): boolean {
  return existsSync(join(dataDirectory, REQUEST_FILE))
}

export function rotationText(rotation: Rotation): string {
  if (rotation.outcome === 'early') return 'nothing to do: the newest signing key is young enough'
  const { outcome, kid, signsFrom } = rotation
  const signs = `signs from ${signsFrom.toISOString()}`
  return outcome === 'started'
    ? `signing key ${kid} is published and ${signs}`
    : `nothing to do: signing key ${kid} is published already and ${signs}`
}
