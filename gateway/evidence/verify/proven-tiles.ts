import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import { HASH_BYTES, type HashText } from '../../audit/seals/hashes.ts'
import { rangeHash } from '../../audit/seals/proofs.ts'
import {
  hashesIn,
  hashesOnLevel,
  TILE_WIDTH,
  TileReader,
  tileWidth,
  unlessFaulty,
} from '../../audit/seals/tiles.ts'
import { rootOf, TILE_HEIGHT } from '../../audit/seals/tree-edge.ts'

/** Tells which tiles of a log lead to the signed root. */
export class ProvenTiles {
  readonly reader: TileReader
  readonly #checkpoint: Checkpoint
  readonly #proven = new Map<string, boolean>()
  #isEdgeProven: boolean | undefined

  constructor(directory: string, checkpoint: Checkpoint) {
    this.reader = new TileReader(directory, checkpoint.size)
    this.#checkpoint = checkpoint
  }

  /** Bytes of a tile, proven or not; undefined when missing or of another length. */
  tile(level: number, index: number): Buffer | undefined {
    return unlessFaulty(() => this.reader.tile(level, index))
  }

  isProven(level: number, index: number): boolean {
    return this.#proven.getOrInsertComputed(`${level}/${index}`, () => this.#prove(level, index))
  }

  leaf(index: number): Buffer | undefined {
    const tile = Math.floor(index / TILE_WIDTH)
    if (!this.isProven(0, tile)) return undefined
    const at = (index % TILE_WIDTH) * HASH_BYTES
    return this.tile(0, tile)?.subarray(at, at + HASH_BYTES)
  }

  /** The root that the tiles give, unproven; undefined when some are missing. */
  rootAt(size: number): Buffer | undefined {
    return unlessFaulty(() => rangeHash(this.reader, 0, size))
  }

  /** See `ProvenLog`. */
  provenRootAt(size: number): Buffer | 'unproven' | undefined {
    let isProven = true
    const subtree = (height: number, index: number): Buffer => {
      const level = Math.floor(height / TILE_HEIGHT)
      const tile = Math.floor((index * 2 ** (height % TILE_HEIGHT)) / TILE_WIDTH)
      if (this.tile(level, tile) !== undefined && !this.isProven(level, tile)) isProven = false
      return this.reader.subtree(height, index)
    }
    const root = unlessFaulty(() => rangeHash({ subtree }, 0, size))
    return isProven ? root : 'unproven'
  }

  #prove(level: number, index: number): boolean {
    const { size } = this.#checkpoint
    const bytes = this.tile(level, index)
    if (bytes === undefined) return false
    // The root is made from the partial tiles and the highest tile.
    if (tileWidth(size, level, index) < TILE_WIDTH || hashesOnLevel(size, level + 1) === 0)
      return this.#proveEdge()
    const parent = Math.floor(index / TILE_WIDTH)
    const at = (index % TILE_WIDTH) * HASH_BYTES
    const expected = this.isProven(level + 1, parent)
      ? this.tile(level + 1, parent)?.subarray(at, at + HASH_BYTES)
      : undefined
    return expected?.equals(rootOf(hashesIn(bytes))) === true
  }

  #proveEdge(): boolean {
    const { size, root } = this.#checkpoint
    this.#isEdgeProven ??= this.rootAt(size)?.equals(root) === true
    return this.#isEdgeProven
  }
}

/** Once one of the first lines is found, the others are sought within this many leaves. */
const SPREAD_LEAVES = 8192

/**
 * The leaf of the first line: lines before it were pruned, or not given.
 * @param hashes of the first lines, one of which may be changed or out of place
 */
export function firstLeafOf(
  hashes: readonly HashText[],
  tiles: ProvenTiles,
  size: number,
): number | undefined {
  const leaves = leavesOf(hashes, tiles, size)
  const [first, second] = [leaves.get(0), leaves.get(1)]
  if (first !== undefined && !(second !== undefined && second < first)) return first
  const votes = new Map<number, number>()
  for (const [line, leaf] of leaves) {
    if (leaf >= line) votes.set(leaf - line, (votes.get(leaf - line) ?? 0) + 1)
  }
  const candidates = [...votes.keys()].toSorted((a, b) => a - b)
  return candidates.find((leaf) => Number(votes.get(leaf)) > 1) ?? candidates[0]
}

function leavesOf(hashes: readonly HashText[], tiles: ProvenTiles, size: number): Map<number, number> {
  const lines = new Map(hashes.map((hash, line) => [hash, line] as const).reverse())
  const leaves = new Map<number, number>()
  let end = size
  for (let index = 0; index * TILE_WIDTH < end; index++) {
    const tile = tiles.tile(0, index)?.toString('latin1') ?? ''
    for (let at = 0; at < tile.length; at += HASH_BYTES) {
      const line = lines.get(tile.slice(at, at + HASH_BYTES))
      if (line === undefined || leaves.has(line)) continue
      leaves.set(line, index * TILE_WIDTH + at / HASH_BYTES)
      if (leaves.size === 1) end = Math.min(size, (index + 1) * TILE_WIDTH + SPREAD_LEAVES)
    }
  }
  return leaves
}
