import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TrailSeals } from '../file/trail-file.ts'
import { linesIn } from '../segments/read-segment.ts'
import { segmentsOfTrail } from '../segments/trail-segments.ts'
import type { Line } from '../trail.test-support.ts'
import type { Trail } from '../trail.ts'
import { type Checkpoint, parseCheckpoint } from './checkpoint.ts'
import { leafHash, leafOf } from './hashes.ts'
import { rangeHash } from './proofs.ts'
import { makeSealKey, readSealKey, type SealKey } from './seal-key.ts'
import { sealProgress } from './seal-progress.ts'
import type { Sealer } from './sealer.ts'
import { ed25519Verifier, parseNote, signersOf } from './signed-note.ts'
import { checkpointFile, logDirectory, TileReader } from './tiles.ts'
import { rootOf } from './tree-edge.ts'

export function newSealKey(directory: string): SealKey {
  const file = join(directory, 'audit-seal-key.pem')
  makeSealKey(file)
  return readSealKey(file)
}

/** Every whole line of a trail that is not compressed, in order, with its `\n`. */
export async function wholeTrail(file: string): Promise<Buffer[]> {
  const segments = await segmentsOfTrail(file)
  return segments.flatMap(({ path }) => [...linesIn(readFileSync(path))].filter((line) => line.at(-1) === 10))
}

/**
 * Asserts that this key has signed the checkpoint beside a trail, and that the first lines give its root.
 * @returns the checkpoint, and the lines that it does not cover.
 */
export async function checkSeal(
  file: string,
  key: SealKey,
): Promise<{ readonly checkpoint: Checkpoint; readonly rest: Line[] }> {
  const directory = logDirectory(file)
  const note = parseNote(readFileSync(checkpointFile(directory)))
  const checkpoint = parseCheckpoint(note.text)
  assert.equal(signersOf(note, [ed25519Verifier(key.verifier)]).length, 1)
  const lines = await wholeTrail(file)
  assert.ok(lines.length >= checkpoint.size)
  const root = rootOf(lines.slice(0, checkpoint.size).map((line) => leafHash(leafOf(line))))
  assert.deepEqual(checkpoint.root, root)
  if (checkpoint.size > 0) {
    assert.deepEqual(rangeHash(new TileReader(directory, checkpoint.size), 0, checkpoint.size), root)
  }
  return {
    checkpoint,
    // A getter, because a crash may have damaged some of these lines.
    get rest() {
      return lines.slice(checkpoint.size).map((line) => JSON.parse(line.toString()))
    },
  }
}

const PIECE_BYTES = 100_003

/** Seals that tell a sealer in this thread what a trail writes. @param now steady, milliseconds */
export function sealsFor(
  sealer: Pick<Sealer, 'hear'>,
  trail: Pick<Trail, 'told'>,
  now: () => number,
  progress = sealProgress(),
): TrailSeals {
  return {
    begin: () => sealer.hear({ type: 'begin', ...trail.told }),
    wrote(lines) {
      for (let at = 0; at < lines.length; at += PIECE_BYTES) {
        const piece = Uint8Array.from(lines.subarray(at, at + PIECE_BYTES))
        sealer.hear({ type: 'lines', lines: piece, atMs: now(), toMs: now() })
      }
    },
    mends: () => progress.mends,
    moved: (inode) => sealer.hear({ type: 'moved', inode }),
    finish: () => Promise.resolve([]),
  }
}
