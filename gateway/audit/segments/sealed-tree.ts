import { readCheckpoint } from '../seals/checkpoint.ts'
import { HASH_BYTES, type HashText, lineHash } from '../seals/hashes.ts'
import { LineHasher } from '../seals/line-hasher.ts'
import { rangeHash } from '../seals/proofs.ts'
import {
  checkpointFile,
  firstTile,
  logDirectory,
  TILE_WIDTH,
  TileReader,
  unlessFaulty,
} from '../seals/tiles.ts'
import { blocksOf } from './read-segment.ts'
import type { Segment } from './segment.ts'

export type LeafRange = { readonly first: number; readonly last: number }

/** Leaves of the log. They tell what must be kept. They prove nothing, because no signature is verified. */
export class SealedTree {
  readonly #tiles: TileReader

  constructor(directory: string, size: number) {
    this.#tiles = new TileReader(directory, size)
  }

  /** @returns undefined when nothing is sealed yet */
  static of(auditFile: string): SealedTree | undefined {
    const directory = logDirectory(auditFile)
    const file = checkpointFile(directory)
    try {
      return new SealedTree(directory, readCheckpoint(file).size)
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
      throw new Error(`${file} cannot be read: ${message}`, { cause: error })
    }
  }

  get directory(): string {
    return this.#tiles.directory
  }

  get size(): number {
    return this.#tiles.size
  }

  get firstLeaf(): number {
    return firstTile(this.directory, 0, Math.floor(this.size / TILE_WIDTH)) * TILE_WIDTH
  }

  /**
   * Finds the leaves of a segment; undefined when they are not contiguous.
   * @param from where the search begins: new segments are near the end
   * @param likely the first leaf, if the segment follows a found segment @throws TileFault; Error as `blocksOf`
   */
  async rangeOf(
    segment: Segment,
    from: 'end' | 'beginning',
    likely = Number.POSITIVE_INFINITY,
  ): Promise<LeafRange | undefined> {
    let first: number | undefined
    let next = 0
    let isSound = true
    const hasher = new LineHasher((hash) => {
      if (first === undefined && isSound) {
        first = unlessFaulty(() => this.#leaf(likely)) === hash ? likely : this.#find(hash, from, this.size)
        next = first ?? 0
        isSound = first !== undefined
      }
      isSound &&= this.#leaf(next++) === hash
    })
    for await (const block of blocksOf(segment)) {
      hasher.push(block)
      if (!isSound) return undefined
    }
    const isWhole = isSound && hasher.unfinishedBytes === 0
    return first !== undefined && isWhole ? { first, last: next - 1 } : undefined
  }

  hasBefore(end: number, line: Buffer | undefined): boolean {
    const hash = line && lineHash(line)
    if (hash === undefined || this.#leaf(end) === hash) return false
    const found = this.#find(hash, 'beginning', end)
    return found !== undefined && found < end
  }

  /** Searches the tile with leaf `first` and later tiles. */
  hasFrom(first: number, line: string): boolean {
    return this.#find(lineHash(Buffer.from(line)), 'end', this.size, first) !== undefined
  }

  /** @returns true also where pruned tiles cannot tell @throws TileFault */
  hasGrownFrom(size: number, root: Buffer): boolean {
    if (size > this.size) return false
    return size === 0 || this.firstLeaf > size || rangeHash(this.#tiles, 0, size).equals(root)
  }

  #leaf(index: number): HashText | undefined {
    if (index >= this.size) return undefined
    const at = (index % TILE_WIDTH) * HASH_BYTES
    return this.#tiles.tile(0, Math.floor(index / TILE_WIDTH)).toString('latin1', at, at + HASH_BYTES)
  }

  #find(
    hash: HashText,
    from: 'end' | 'beginning',
    before: number,
    first = this.firstLeaf,
  ): number | undefined {
    const bytes = Buffer.from(hash, 'latin1')
    const begin = Math.floor(first / TILE_WIDTH)
    const end = Math.ceil(before / TILE_WIDTH)
    for (let i = 0; i < end - begin; i++) {
      const index = from === 'beginning' ? begin + i : end - 1 - i
      const at = indexOfHash(this.#tiles.tile(0, index), bytes)
      if (at !== undefined) return index * TILE_WIDTH + at
    }
    return undefined
  }
}

function indexOfHash(tile: Buffer, hash: Buffer): number | undefined {
  for (let at = tile.indexOf(hash); at !== -1; at = tile.indexOf(hash, at + 1)) {
    if (at % HASH_BYTES === 0) return at / HASH_BYTES
  }
  return undefined
}
