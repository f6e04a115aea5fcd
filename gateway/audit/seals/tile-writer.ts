import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { OWNER_ONLY, syncDirectory } from '../../storage/line-file.ts'
import { HASH_BYTES, type HashText } from './hashes.ts'
import { partialTiles, TILE_WIDTH, type TileReader, tilePath } from './tiles.ts'

/** The last tile of a level. */
interface EdgeTile {
  readonly bytes: Buffer
  index: number
  width: number
  /** Width in which it is on the disk. */
  writtenWidth: number
}

interface FullTile {
  readonly level: number
  readonly index: number
  readonly bytes: Buffer
}

/** Writes the tiles of a growing tree. What could not be written stays in memory for the next `write`. */
export class TileWriter {
  readonly #directory: string
  readonly #edge: EdgeTile[] = []
  #full: FullTile[] = []
  /** Directories whose names must still be synced. */
  readonly #unsynced = new Set<string>()

  constructor(directory: string) {
    this.#directory = directory
  }

  /** Goes on with a tree. @throws TileFault when its last tiles are not there. */
  static from(tiles: TileReader): TileWriter {
    const writer = new TileWriter(tiles.directory)
    for (const { level, index, width } of partialTiles(tiles.size)) {
      const tile = writer.#tileOf(level)
      tiles.tile(level, index).copy(tile.bytes)
      tile.index = index
      tile.width = width
      tile.writtenWidth = width
    }
    // A level without a partial tile has full ones only.
    for (const [level, tile] of writer.#edge.entries()) {
      if (tile.width === 0) tile.index = Math.floor(tiles.size / TILE_WIDTH ** (level + 1))
    }
    return writer
  }

  /** The next hash of a level. */
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

  /** Writes the tiles of the present tree to the disk. @returns the full ones. @throws Error of the system. */
  write(): readonly FullTile[] {
    for (const { level, index, bytes } of this.#full) this.#writeTile(tilePath(level, index), bytes)
    for (const [level, tile] of this.#edge.entries()) {
      if (tile.width === tile.writtenWidth) continue
      const bytes = tile.bytes.subarray(0, tile.width * HASH_BYTES)
      this.#writeTile(tilePath(level, tile.index, tile.width), bytes)
      tile.writtenWidth = tile.width
    }
    for (const directory of this.#unsynced) {
      // One that was removed meanwhile must not fail each time.
      this.#unsynced.delete(directory)
      try {
        syncDirectory(directory)
      } catch (error) {
        this.writeEdgeAgain()
        throw error
      }
    }
    const full = this.#full
    this.#full = []
    return full
  }

  /** The next `write` writes all tiles that the tree grows from: those on the disk may be gone. */
  writeEdgeAgain(): void {
    for (const tile of this.#edge) tile.writtenWidth = 0
  }

  /** Removes the partial tiles that full ones stand for, once a checkpoint covers these. */
  removePartial(full: readonly FullTile[]): void {
    for (const { level, index } of full) {
      try {
        rmSync(join(this.#directory, `${tilePath(level, index)}.p`), { recursive: true, force: true })
      } catch {
        // They only take room.
      }
    }
  }

  #tileOf(level: number): EdgeTile {
    while (this.#edge.length <= level) {
      this.#edge.push({
        bytes: Buffer.alloc(TILE_WIDTH * HASH_BYTES),
        index: 0,
        width: 0,
        writtenWidth: 0,
      })
    }
    return this.#edge[level] as EdgeTile
  }

  /** A reader sees all of the tile or nothing. */
  #writeTile(name: string, bytes: Buffer): void {
    const path = join(this.#directory, name)
    const draft = `${path}.tmp`
    this.#makeDirectory(dirname(path))
    const fd = openSync(draft, 'w', OWNER_ONLY)
    try {
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at)
      fsyncSync(fd)
    } catch (error) {
      rmSync(draft, { force: true })
      throw error
    } finally {
      closeSync(fd)
    }
    renameSync(draft, path)
    this.#unsynced.add(dirname(path))
  }

  #makeDirectory(directory: string): void {
    const first = mkdirSync(directory, { recursive: true, mode: 0o700 })
    if (first === undefined) return
    // Each new directory is a name in the one above.
    const names = relative(dirname(first), directory).split(sep)
    for (let i = 0; i < names.length; i++) this.#unsynced.add(join(dirname(first), ...names.slice(0, i)))
  }
}
