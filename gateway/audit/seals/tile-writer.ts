import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { HASH_BYTES, type HashText } from './hashes.ts'
import type { LateTiles } from './late-tiles.ts'
import type { TileFiles } from './tile-files.ts'
import { partialTiles, TILE_WIDTH, type TileReader, tilePath } from './tiles.ts'

/** The last tile of a level. */
interface EdgeTile {
  readonly bytes: Buffer
  index: number
  width: number
  /** Width in which it is on the disk. */
  writtenWidth: number
}

type FullTile = { readonly level: number; readonly index: number; readonly bytes: Buffer }

/** Writes the tiles of a growing tree. What could not be written stays in memory for the next `write`. */
export class TileWriter {
  readonly #files: TileFiles
  readonly #late: LateTiles
  readonly #edge: EdgeTile[] = []
  #full: FullTile[] = []

  private constructor(files: TileFiles, late: LateTiles) {
    this.#files = files
    this.#late = late
  }

  /** Continues a tree. @throws TileFault when its last tiles are not there */
  static from(tiles: TileReader, files: TileFiles, late: LateTiles): TileWriter {
    const writer = new TileWriter(files, late)
    for (const { level, index, width } of partialTiles(tiles.size)) {
      const tile = writer.#tileOf(level)
      tiles.tile(level, index).copy(tile.bytes)
      tile.index = index
      tile.width = width
      tile.writtenWidth = width
    }
    // A level without a partial tile has full ones only.
    for (const [level, tile] of writer.#edge.entries())
      if (tile.width === 0) tile.index = Math.floor(tiles.size / TILE_WIDTH ** (level + 1))
    return writer
  }

  add(level: number, hash: HashText): void {
    const tile = this.#tileOf(level)
    tile.bytes.write(hash, tile.width * HASH_BYTES, 'latin1')
    tile.width++
    if (tile.width < TILE_WIDTH) return
    this.#full.push({ level, index: tile.index, bytes: Buffer.from(tile.bytes) })
    tile.index++
    tile.width = 0
    tile.writtenWidth = 0
  }

  /** Writes and syncs tiles, except full ones of leaves (`LateTiles`). @returns the full ones @throws Error of the system */
  async write(nowMs: number): Promise<readonly FullTile[]> {
    const leaves = this.#full.filter(({ level }) => level === 0)
    const above = this.#full.filter(({ level }) => level > 0)
    const partial = [...this.#edge.entries()].filter(([, tile]) => tile.width !== tile.writtenWidth)
    this.#late.write(leaves, nowMs)
    await this.#files.writeSynced([
      ...above.map(({ level, index, bytes }) => ({ name: tilePath(level, index), bytes })),
      ...partial.map(([level, { index, width, bytes }]) => ({
        name: tilePath(level, index, width),
        bytes: bytes.subarray(0, width * HASH_BYTES),
      })),
    ])
    for (const tile of this.#edge) tile.writtenWidth = tile.width
    const full = this.#full
    this.#full = []
    return full
  }

  /** The next `write` writes the right edge again: the disk may have lost it. */
  writeEdgeAgain(): void {
    this.#files.forget()
    for (const tile of this.#edge) tile.writtenWidth = 0
  }

  /** Removes the partial tiles of full ones, once a checkpoint covers these. */
  removePartial(full: readonly FullTile[]): void {
    for (const { level, index } of full) {
      const partial = join(this.#files.directory, `${tilePath(level, index)}.p`)
      this.#files.forget(partial)
      try {
        rmSync(partial, { recursive: true, force: true })
      } catch {
        // They only take room.
      }
    }
  }

  #tileOf(level: number): EdgeTile {
    while (this.#edge.length <= level) {
      const bytes = Buffer.alloc(TILE_WIDTH * HASH_BYTES)
      this.#edge.push({ bytes, index: 0, width: 0, writtenWidth: 0 })
    }
    return this.#edge[level] as EdgeTile
  }
}
