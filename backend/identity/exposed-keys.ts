import { rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { closeToOthers, isOpenToOthers } from '../database/private-directory.ts'

/** A marker file. Its time is the end of the exposure; it exists until all earlier keys are replaced. */
const MARKER = 'keys-exposed'

/**
 * Closes the embedded database in `directory` to other users of the machine. Earlier versions left it readable, and with
 * it the private signing keys: a marker is written first, so that they are replaced even after a crash. @returns
 * whether others can still read it, because the file system has no permissions or another user owns it.
 */
export function endExposure(directory: string): { readonly stillOpen: boolean } {
  const wasOpen = isOpenToOthers(directory)
  if (wasOpen) writeFileSync(join(directory, MARKER), '', { mode: 0o600 })
  closeToOthers(directory)
  const stillOpen = isOpenToOthers(directory)
  // Keys that stay readable would be replaced at each start, for nothing.
  if (stillOpen) forgetExposure(directory)
  return { stillOpen }
}

/** When others could last read the keys that are still to be replaced; undefined when there are none. */
export function exposedUntil(directory: string): Date | undefined {
  return statSync(join(directory, MARKER), { throwIfNoEntry: false })?.mtime
}

export function forgetExposure(directory: string): void {
  rmSync(join(directory, MARKER), { force: true })
}
