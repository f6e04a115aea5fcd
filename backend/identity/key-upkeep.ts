import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../database/database.ts'
import { exposedUntil, forgetExposure } from './exposed-keys.ts'
import { type Rotation, rotateSigningKeys } from './key-rotation.ts'
import type { SigningKeys } from './keys.ts'

/** How often a process checks for keys of another one, and whether a rotation is due. */
export const LOOK_EVERY_MS = 30_000
/** How often a process looks for a request to rotate: somebody waits for it. */
export const ASKED_EVERY_MS = 1000

/** Only one process can have an embedded database open: the command leaves a file there, and the backend rotates. */
const REQUEST_FILE = 'rotate-keys.request'

export interface KeyUpkeep {
  readonly database: Database
  readonly keys: SigningKeys
  readonly clock: () => Date
  readonly logger: FastifyBaseLogger
  readonly dataDirectory: string
  /** Rotated when the newest key is older than this. */
  readonly rotateAfterMs: number
}

/** Loads keys that others have made, and starts a rotation when one is requested or due. */
export async function keepKeys(upkeep: KeyUpkeep): Promise<void> {
  const { database, keys, clock, logger, dataDirectory, rotateAfterMs } = upkeep
  const isAsked = isRotationAsked(dataDirectory)
  const exposed = exposedUntil(dataDirectory)
  const now = clock()
  const olderThanMs = exposed === undefined ? rotateAfterMs : now.getTime() - exposed.getTime()
  const rotation = await rotateSigningKeys(database, { now, ...(isAsked ? {} : { olderThanMs }) })
  if (isAsked) rmSync(join(dataDirectory, REQUEST_FILE), { force: true })
  if (rotation.outcome === 'started' || isAsked) logger.info({ rotation }, rotationText(rotation))
  // A key that is already published may have been read too: then the next check starts another rotation.
  if (exposed !== undefined && rotation.outcome !== 'pending') forgetExposure(dataDirectory)
  await keys.refresh()
}

/** Whether somebody has asked the process that has the database in `dataDirectory` open for a rotation. */
export function isRotationAsked(dataDirectory: string): boolean {
  return existsSync(join(dataDirectory, REQUEST_FILE))
}

/** Asks the process that has the database in `dataDirectory` open. @returns a function that tells whether it has rotated */
export function askForRotation(dataDirectory: string): () => boolean {
  writeFileSync(join(dataDirectory, REQUEST_FILE), '')
  return () => !isRotationAsked(dataDirectory)
}

/** One line for the log. */
export function rotationText(rotation: Rotation): string {
  switch (rotation.outcome) {
    case 'started':
      return `signing key ${rotation.kid} is published and signs from ${rotation.signsFrom.toISOString()}`
    case 'pending':
      return `nothing to do: signing key ${rotation.kid} is published already and signs from ${rotation.signsFrom.toISOString()}`
    case 'early':
      return 'nothing to do: the newest signing key is young enough'
  }
}
