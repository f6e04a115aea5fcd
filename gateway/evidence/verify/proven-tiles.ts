import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import { HASH_BYTES } from '../../audit/seals/hashes.ts'
import { rangeHash } from '../../audit/seals/proofs.ts'
import {
  hashesIn,
  hashesOnLevel,
  TILE_HEIGHT,
  TILE_WIDTH,
  TileFault,
  TileReader,
  tileWidth,
} from '../../audit/seals/tiles.ts'
import { rootOf } from '../../audit/seals/tree-edge.ts'

/** The tiles of a log, each of which is compared with the signed root before anything is concluded from it. */
export class ProvenTiles {
  readonly reader: TileReader
  readonly #checkpoint: Checkpoint
  readonly #proven = new Map<string, boolean>()
  #isEdgeProven: boolean | undefined

  constructor(directory: string, checkpoint: Checkpoint) {
    this.reader = new TileReader(directory, checkpoint.size)
    this.#checkpoint = checkpoint
  }

  /** The bytes of a tile as they are; undefined when it is missing or has another length. */
  tile(level: number, index: number): Buffer | undefined {
    try {
      return this.reader.tile(level, index)
    } catch (error) {
      if (error instanceof TileFault) return undefined
      throw error
    }
  }

  /** Whether the hashes of a tile lead to the signed root. */
  isProven(level: number, index: number): boolean {
    const name = `${level}/${index}`
    const known = this.#proven.get(name)
    if (known !== undefined) return known
    const proven = this.#prove(level, index)
    this.#proven.set(name, proven)
    return proven
  }

  /** The hash of a leaf, if it is proven. */
  leaf(index: number): Buffer | undefined {
    const tile = Math.floor(index / TILE_WIDTH)
    if (!this.isProven(0, tile)) return undefined
    const at = (index % TILE_WIDTH) * HASH_BYTES
    return this.tile(0, tile)?.subarray(at, at + HASH_BYTES)
  }

  /** The root of an earlier tree; undefined when tiles are missing. Only as good as the tiles. */
  rootAt(size: number): Buffer | undefined {
    try {
      return rangeHash(this.reader, 0, size)
    } catch (error) {
      if (error instanceof TileFault) return undefined
      throw error
    }
  }

  /**
   * The root of an earlier tree, by tiles that lead to the signed root; undefined when some are missing, and 'unproven' when one
   * lies there and does not lead to it.
   */
  provenRootAt(size: number): Buffer | 'unproven' | undefined {
    let isProven = true
    const subtree = (height: number, index: number): Buffer => {
      const level = Math.floor(height / TILE_HEIGHT)
      const tile = Math.floor((index * 2 ** (height % TILE_HEIGHT)) / TILE_WIDTH)
      if (this.tile(level, tile) !== undefined && !this.isProven(level, tile)) isProven = false
      return this.reader.subtree(height, index)
    }
    let root: Buffer | undefined
    try {
      root = rangeHash({ subtree }, 0, size)
    } catch (error) {
      if (!(error instanceof TileFault)) throw error
    }
    return isProven ? root : 'unproven'
  }

  #prove(level: number, index: number): boolean {
    const { size } = this.#checkpoint
    const bytes = this.tile(level, index)
    if (bytes === undefined) return false
    // Partial tiles, and the highest, are what the root is made from.
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
