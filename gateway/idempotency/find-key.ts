import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { readIfThere } from '../storage/regular-file.ts'
import { type KeyRecord, readKeyLine } from './key-record.ts'
import type { KeySecret } from './key-secret.ts'
import { headerOf, namesIn } from './key-segment.ts'

const NEWLINE = 0x0a

/** Where the last record of a key is. */
export interface FoundKey {
  readonly file: string
  /** Undefined: it is damaged. */
  readonly record: KeyRecord | undefined
}

/**
 * Finds a key in files that a gateway may be writing, which are only read.
 *
 * @param id made by `KeySecret.idOf`
 * @returns undefined when they do not have it
 * @throws Error that names a file which cannot be read
 */
export function findKey(directory: string, id: string, secret: KeySecret): FoundKey | undefined {
  for (const name of namesIn(readdirSync(directory)).reverse()) {
    const file = join(directory, name)
    const text = readIfThere(file)
    const at = text?.lastIndexOf(`\n${id} `) ?? -1
    if (text === undefined || at === -1) continue
    const { salt } = headerOf(file, text.toString('latin1', 0, text.indexOf(NEWLINE)), secret)
    const end = text.indexOf(NEWLINE, at + 1)
    const line = text.subarray(at + 1, end === -1 ? undefined : end)
    return { file, record: readKeyLine(line, id, secret.sealOf(salt)) }
  }
  return undefined
}
