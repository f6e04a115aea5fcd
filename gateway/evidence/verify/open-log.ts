import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import { NoteFault } from '../../audit/seals/signed-note.ts'
import { checkpointFile } from '../../audit/seals/tiles.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import type { Finding } from './finding.ts'
import { openCheckpoint, type TrustedKey } from './trusted-key.ts'

/** The checkpoint of the log in a directory, or why there is none. @throws Error when the file cannot be read. */
export function openLog(directory: string, key: TrustedKey): Checkpoint | Finding {
  const file = checkpointFile(directory)
  try {
    return openCheckpoint(readRegularFile(file), key)
  } catch (error) {
    if (error instanceof NoteFault) return { what: 'checkpoint', text: `${file} ${error.message}` }
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return {
      what: 'checkpoint',
      text: `${file} is missing: the trail was never sealed, or its log was removed`,
    }
  }
}
