import { readRegularFile } from '../../storage/regular-file.ts'
import { HASH_BYTES } from './hashes.ts'
import { NoteFault, parseNote } from './signed-note.ts'

export type Checkpoint = { readonly origin: string; readonly size: number; readonly root: Buffer }

export function checkpointText({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`
}

/** Verifies no signature. @throws NoteFault when the text is no checkpoint */
export function parseCheckpoint(text: string): Checkpoint {
  const [origin = '', decimal = '', base64 = '', ...extensions] = text.split('\n')
  const size = Number(decimal)
  const root = Buffer.from(base64, 'base64')
  const isWhole = origin !== '' && extensions.pop() === '' && !extensions.includes('')
  if (!isWhole || !/^(?:0|[1-9]\d*)$/.test(decimal)) {
    throw new NoteFault('is no checkpoint: it must have origin, size and root, each on a line of its own')
  }
  if (!Number.isSafeInteger(size)) throw new NoteFault('has a tree size that is too large')
  if (root.length !== HASH_BYTES || root.toString('base64') !== base64) {
    throw new NoteFault('has a root that is not the base64 of 32 bytes')
  }
  return { origin, size, root }
}

/** Verifies no signature. @throws NoteFault */
export function readCheckpoint(file: string): Checkpoint {
  return parseCheckpoint(parseNote(readRegularFile(file)).text)
}
