import { fstatSync } from 'node:fs'
import { withFile } from '../../storage/line-file.ts'
import { endOfLastLine, linesBackward } from '../../storage/lines-backward.ts'
import { blocksOf } from '../segments/read-segment.ts'
import type { Segment } from '../segments/segment.ts'
import { segmentsOfTrail } from '../segments/trail-segments.ts'
import { HASH_BYTES, type HashText, lineHash } from './hashes.ts'
import { LineHasher } from './line-hasher.ts'
import { TILE_WIDTH } from './tiles.ts'

const LAST_LEAVES = 512
const MANY_LEAVES = 65_536

export interface SealGap {
  readonly size: number
  readonly found: number | undefined
}

type SegmentFile = Pick<Segment, 'path' | 'compression'>
/** A position is in bytes of the plain text. */
type Place = { readonly segments: readonly SegmentFile[]; readonly index: number; readonly position: number }
type FoundLeaf = { readonly leaf: number; readonly position: number }

export class LastLeaves {
  readonly #indexes = new Map<HashText, number>()
  readonly #hashes = new Map<number, HashText>()

  /** Call it for the last tile first. */
  addTile(tile: number, hashes: string): void {
    for (let at = hashes.length - HASH_BYTES; at >= 0; at -= HASH_BYTES) {
      const [index, hash] = [tile * TILE_WIDTH + at / HASH_BYTES, hashes.slice(at, at + HASH_BYTES)]
      this.#hashes.set(index, hash)
      if (!this.#indexes.has(hash)) this.#indexes.set(hash, index)
    }
  }

  get isEmpty(): boolean {
    return this.#hashes.size === 0
  }

  indexOf(hash: HashText): number | undefined {
    return this.#indexes.get(hash)
  }

  /** False when the leaf before `leaf` is known to differ from `before`. */
  mayFollow(leaf: number, before: HashText): boolean {
    return leaf > 0 && (this.#hashes.get(leaf - 1) ?? before) === before
  }
}

/** Finds where sealing goes on. A new log begins with the oldest segment; if one is unreadable, with the open one. */
export async function placeToGoOn(
  log: { readonly size: number; lastLeaves(count: number): LastLeaves },
  {
    file,
    onGap,
    onFault,
  }: { readonly file: string; onGap(gap: SealGap): void; onFault(message: string): void },
): Promise<Place> {
  const open = { path: file, compression: 'none' } as const
  const { size } = log
  if (size === 0) {
    const segments = await segmentsOfTrail(file).catch((error: Error) => {
      onFault(`only new records are sealed: ${error.message}`)
      return [open]
    })
    return { segments, index: 0, position: 0 }
  }
  const last = log.lastLeaves(LAST_LEAVES)
  const found = await lastSealedLine(open, last)
  if (found?.leaf === size - 1) return { segments: [open], index: 0, position: found.position }
  const segments = await segmentsOfTrail(file)
  const exact = await newestSealedLine(segments, last)
  if (exact?.leaf === size - 1) return { segments, ...exact }
  const some = exact ?? (await newestSealedLine(segments, log.lastLeaves(MANY_LEAVES)))
  onGap({ size, found: some && some.leaf + 1 })
  return { segments, index: some?.index ?? 0, position: some?.position ?? 0 }
}

/** Finds the last line that is one of these leaves. Lines can be equal, so the line before must match too. */
async function lastSealedLine(segment: SegmentFile, leaves: LastLeaves): Promise<FoundLeaf | undefined> {
  if (segment.compression === 'none') return searchBackward(segment.path, leaves)
  let found: FoundLeaf | undefined
  let position = 0
  let before: HashText | undefined
  const hasher = new LineHasher((hash, _bytes, _start, _end, lineBytes) => {
    position += lineBytes
    const leaf = leaves.indexOf(hash)
    if (leaf !== undefined && (before === undefined || leaves.mayFollow(leaf, before)))
      found = { leaf, position }
    before = hash
  })
  for await (const block of blocksOf(segment)) hasher.push(block)
  return found
}

export async function newestSealedLine(
  segments: readonly Segment[],
  leaves: LastLeaves,
): Promise<(FoundLeaf & { readonly index: number }) | undefined> {
  for (let index = segments.length - 1; index >= 0; index--) {
    const found = await lastSealedLine(segments[index] as Segment, leaves)
    if (found !== undefined) return { index, ...found }
  }
  return undefined
}

function searchBackward(path: string, leaves: LastLeaves): FoundLeaf | undefined {
  return withFile(path, 'r', (fd) => {
    let position = endOfLastLine(fd, fstatSync(fd).size)
    let candidate: FoundLeaf | undefined
    for (const line of linesBackward(fd, position)) {
      const hash = lineHash(Buffer.from(`${line}\n`, 'latin1'))
      if (candidate !== undefined && leaves.mayFollow(candidate.leaf, hash)) return candidate
      const leaf = leaves.indexOf(hash)
      candidate = leaf === undefined ? undefined : { leaf, position }
      position -= line.length + 1
    }
    return candidate
  })
}
