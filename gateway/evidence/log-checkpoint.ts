import { type Checkpoint, parseCheckpoint } from '../audit/seals/checkpoint.ts'
import { NoteFault, parseNote } from '../audit/seals/signed-note.ts'
import { readRegularFile } from '../storage/regular-file.ts'

/** What speaks against a trail or its log; not that a file cannot be read or written. */
export class EvidenceFault extends Error {}

/**
 * Reads a checkpoint of a log, whose signatures the caller verifies.
 *
 * @throws EvidenceFault when it is none; Error when the file cannot be read.
 */
export function readCheckpoint(file: string): { readonly note: Buffer; readonly checkpoint: Checkpoint } {
  const note = readRegularFile(file)
  try {
    return { note, checkpoint: parseCheckpoint(parseNote(note).text) }
  } catch (error) {
    throw error instanceof NoteFault ? new EvidenceFault(`${file} ${error.message}`, { cause: error }) : error
  }
}
