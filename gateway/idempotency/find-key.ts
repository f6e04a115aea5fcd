import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { readIfThere } from '../storage/regular-file.ts'
import { type KeyRecord, openLine, readKeyRecord } from './key-record.ts'
import type { KeySecrets } from './key-secret.ts'
import { headerOf, namesIn } from './key-segment.ts'

const NEWLINE = 0x0a

/** Where the last record of a key is. */
export interface FoundKey {
  readonly file: string
  /** Undefined: it is damaged, or its secret is gone. */
  readonly record: KeyRecord | undefined
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
    const text = readIfThere(file)
    if (text === undefined) continue
    const id = ids.find((one) => text.includes(`\n${one} `))
    if (id === undefined) continue
    const at = text.lastIndexOf(`\n${id} `)
    const { seal } = headerOf(file, text.toString('latin1', 0, text.indexOf(NEWLINE)), secrets)
    const end = text.indexOf(NEWLINE, at + 1)
    const line = text.subarray(at + 1, end === -1 ? undefined : end)
    const opened = (from: number, bytes: number) => seal && openLine(text.subarray(from, from + bytes), seal)
    return { file, record: readKeyRecord(line, { id, at: at + 1 }, opened) }
  }
  return undefined
}
