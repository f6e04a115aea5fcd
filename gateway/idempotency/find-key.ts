import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { readIfThere } from '../storage/regular-file.ts'
import { type KeptResponse, openLine, readKeyRecord } from './key-record.ts'
import type { KeySecrets } from './key-secret.ts'
import { headerOf, namesIn } from './key-segment.ts'

const NEWLINE = 0x0a

/** What became of a key. */
export interface FoundKey {
  /** As in `KeyRecord`, or why it is not known. */
  readonly state: string
  /** Epoch milliseconds, as `untilMs`. */
  readonly sinceMs?: number
  readonly untilMs?: number | undefined
  readonly requestId?: string | undefined
  readonly response?: KeptResponse | undefined
}

/**
 * Finds a key in files that a gateway may be writing, which are only read.
 *
 * @param ids what each secret makes of it (`KeySecret.idOf`)
 * @returns undefined when they do not have it
 * @throws Error that names a file which cannot be read
 */
export function findKey(
  directory: string,
  ids: readonly string[],
  secrets: KeySecrets,
): FoundKey | undefined {
  for (const name of namesIn(readdirSync(directory)).reverse()) {
    const file = join(directory, name)
    const read = readIfThere(file, Number.POSITIVE_INFINITY)
    if (read === undefined) continue
    // What is being written has no end yet.
    const text = read.subarray(0, read.lastIndexOf(NEWLINE) + 1)
    const id = ids.find((one) => text.includes(`\n${one} `))
    if (id === undefined) continue
    const at = text.lastIndexOf(`\n${id} `)
    const { seal } = headerOf(file, text.toString('latin1', 0, text.indexOf(NEWLINE)), secrets)
    const line = text.subarray(at + 1, text.indexOf(NEWLINE, at + 1))
    const opened = (from: number, bytes: number) => seal && openLine(text.subarray(from, from + bytes), seal)
    const record = readKeyRecord(line, { id, at: at + 1 }, opened)
    if (record === undefined) return { state: `damaged, in ${file}` }
    return { ...record, sinceMs: record.atMs, untilMs: record.atMs + record.keepMs }
  }
  return undefined
}
