import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { readIfThere } from '../storage/regular-file.ts'
import { type KeptResponse, NEWLINE, openLine, readKeyRecord } from './key-record.ts'
import { ID_CHARS, type KeySecrets } from './key-secret.ts'
import { headerOf, namesIn } from './key-segment.ts'

export interface FoundKey {
  /** As in `KeyRecord`, or why the state is not known. */
  readonly state: string
  /** Epoch milliseconds, like `untilMs`. */
  readonly sinceMs?: number
  readonly untilMs?: number | undefined
  readonly requestId?: string | undefined
  readonly response?: KeptResponse | undefined
}

/**
 * Finds keys in files that a gateway may be writing.
 *
 * @param ids made by `KeySecret.idOf`, under any secret
 * @throws Error that names a file which cannot be read
 */
export function findKeys(
  directory: string,
  ids: ReadonlySet<string>,
  secrets: KeySecrets,
): ReadonlyMap<string, FoundKey> {
  const found = new Map<string, FoundKey>()
  for (const name of namesIn(readdirSync(directory)).reverse()) {
    const file = join(directory, name)
    const text = readIfThere(file, Number.POSITIVE_INFINITY) ?? Buffer.of()
    const last = lastPlaces(text, ids)
    if (last.size === 0) continue
    const { seal } = headerOf(file, text.toString('latin1', 0, text.indexOf(NEWLINE)), secrets)
    const opened = (from: number, bytes: number) => seal && openLine(text.subarray(from, from + bytes), seal)
    for (const [id, at] of last) {
      if (found.has(id)) continue
      const record = readKeyRecord(text.subarray(at, text.indexOf(NEWLINE, at)), { id, at }, opened)
      found.set(
        id,
        record === undefined
          ? { state: `damaged, in ${file}` }
          : { ...record, sinceMs: record.atMs, untilMs: record.atMs + record.keepMs },
      )
    }
  }
  return found
}

/** Finds where the last line of each key begins. A line without an end is still being written. */
function lastPlaces(text: Buffer, ids: ReadonlySet<string>): ReadonlyMap<string, number> {
  const last = new Map<string, number>()
  let at = 0
  for (let end = text.indexOf(NEWLINE); end !== -1; end = text.indexOf(NEWLINE, at)) {
    const id = text.toString('latin1', at, at + ID_CHARS)
    if (ids.has(id)) last.set(id, at)
    at = end + 1
  }
  return last
}
