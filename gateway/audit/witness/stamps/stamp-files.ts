import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { makeDirectory, replaceFile } from '../../../storage/line-file.ts'
import type { Attested } from '../paced-rounds.ts'

/** Holds `<size>.checkpoint` as it was stamped, and `<size>.tsr`, the response. */
const STAMPS_DIRECTORY = 'stamps'
const STAMP_NAME = /^(\d+)\.tsr$/

export function stampsDirectory(logDirectory: string): string {
  return join(logDirectory, STAMPS_DIRECTORY)
}

export function keepStamp(
  directory: string,
  size: number,
  checkpoint: Uint8Array,
  response: Uint8Array,
): void {
  makeDirectory(directory)
  replaceFile(join(directory, `${size}.checkpoint`), [checkpoint])
  replaceFile(join(directory, `${size}.tsr`), [response])
}

export function stampedSizes(directory: string): readonly number[] {
  let names: readonly string[]
  try {
    names = readdirSync(directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
  const sizes = names.map((name) => Number(STAMP_NAME.exec(name)?.[1]))
  return sizes.filter(Number.isSafeInteger).sort((one, other) => one - other)
}

export function lastStamped(directory: string): Attested | undefined {
  try {
    const size = stampedSizes(directory).at(-1)
    if (size === undefined) return undefined
    return { size, ageMs: Math.max(Date.now() - statSync(join(directory, `${size}.tsr`)).mtimeMs, 0) }
  } catch {
    return undefined
  }
}
