import { statSync } from 'node:fs'
import { join } from 'node:path'
import { isReached, type Quorum } from '../../config/tlog-policy.ts'
import { replaceFile } from '../../storage/line-file.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { type Checkpoint, parseCheckpoint, readCheckpoint } from '../seals/checkpoint.ts'
import {
  formatSignature,
  type NoteSignature,
  type NoteVerifier,
  parseNote,
  verifiedSignatures,
} from '../seals/signed-note.ts'
import { checkpointFile } from '../seals/tiles.ts'
import type { Attested } from './paced-rounds.ts'

/** The newest checkpoint cosigned by a quorum, with the signatures. */
export const WITNESSED_FILE = 'checkpoint.witnessed'

export type Witnesses = { readonly verifiers: readonly NoteVerifier[]; readonly quorum: Quorum }

export function areEnough(
  { quorum }: Pick<Witnesses, 'quorum'>,
  signers: readonly Pick<NoteVerifier, 'name' | 'keyId'>[],
): boolean {
  const names = new Set(signers.map(({ name, keyId }) => `${name}+${keyId}`))
  return isReached(quorum, (key) => names.has(key.split('+', 2).join('+')))
}

/** Does nothing when another process has kept a larger tree of the log. */
export function keepWitnessed(
  directory: string,
  checkpoint: Uint8Array,
  signatures: readonly NoteSignature[],
): void {
  const file = join(directory, WITNESSED_FILE)
  const kept = checkpointIn(file)
  const { origin, size } = parseCheckpoint(parseNote(checkpoint).text)
  if (kept?.origin === origin && kept.size > size) return
  replaceFile(file, [checkpoint, ...signatures.map(formatSignature)])
}

function checkpointIn(file: string): Checkpoint | undefined {
  try {
    return readCheckpoint(file)
  } catch {
    return undefined
  }
}

/** Verifies only signatures of witnesses. @throws NoteFault */
export function readWitnessed(
  bytes: Uint8Array,
  witnesses: readonly NoteVerifier[],
): { readonly checkpoint: Checkpoint; readonly signers: readonly NoteSignature[] } {
  const note = parseNote(bytes)
  return {
    checkpoint: parseCheckpoint(note.text),
    signers: [...verifiedSignatures(note, witnesses).values()],
  }
}

/** The last witnessed checkpoint, if it is of this log and a quorum has signed it. */
export function lastWitnessed(directory: string, witnesses: Witnesses): Attested | undefined {
  const file = join(directory, WITNESSED_FILE)
  try {
    const { checkpoint, signers } = readWitnessed(readRegularFile(file), witnesses.verifiers)
    const ageMs = Math.max(Date.now() - statSync(file).mtimeMs, 0)
    const isOfLog = checkpointIn(checkpointFile(directory))?.origin === checkpoint.origin
    return isOfLog && areEnough(witnesses, signers) ? { size: checkpoint.size, ageMs } : undefined
  } catch {
    return undefined
  }
}
