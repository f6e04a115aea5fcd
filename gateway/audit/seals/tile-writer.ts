import { closeSync, fsync, mkdirSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { OWNER_ONLY, syncDirectory, WRITE_ANEW } from '../../storage/line-file.ts'
import { HASH_BYTES, type HashText } from './hashes.ts'
import { partialTiles, TILE_WIDTH, type TileReader, tilePath } from './tiles.ts'

/** The last tile of a level. */
interface EdgeTile {
  readonly bytes: Buffer
  index: number
  width: number
  /** Width in which it is on the disk. */
  writtenWidth: number
  /** The directory for its partial widths may be there. */
  hasPartial: boolean
}

interface FullTile {
  readonly level: number
  readonly index: number
  readonly bytes: Buffer
  readonly hasPartial: boolean
}

/** A file that is to be renamed when the disk has it. */
interface Draft {
  readonly fd: number
  readonly path: string
}

/** Files that are open at once. */
const MAX_DRAFTS = 64
/** A sync that begins while another is under way shares its writes of the file system's journal. Two of the four threads of
 * the pool stay free for others while a disk stalls. */
const SYNCS_AT_ONCE = 2

/** Writes the tiles of a growing tree. What could not be written stays in memory for the next `write`. */
export class TileWriter {
  readonly #directory: string
  readonly #edge: EdgeTile[] = []
  #full: FullTile[] = []
  /** Directories with names that must still be synced. */
  readonly #unsynced = new Set<string>()
  /** Directories whose own names are synced, or are going to be. */
  readonly #named = new Set<string>()

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
      tile.hasPartial = true
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
    const { index, hasPartial } = tile
    this.#full.push({ level, index, bytes: Buffer.from(tile.bytes), hasPartial })
    tile.index++
    tile.width = 0
    tile.writtenWidth = 0
    tile.hasPartial = false
  }

  /** Writes the tiles of the present tree to the disk. @returns the full ones. @throws Error of the system. */
  async write(): Promise<readonly FullTile[]> {
    const partial = [...this.#edge.entries()].filter(([, tile]) => tile.width !== tile.writtenWidth)
    const files = [
      ...this.#full.map(({ level, index, bytes }) => ({ name: tilePath(level, index), bytes })),
      ...partial.map(([level, { index, width, bytes }]) => ({
        name: tilePath(level, index, width),
        bytes: bytes.subarray(0, width * HASH_BYTES),
      })),
    ]
    for (let at = 0; at < files.length; at += MAX_DRAFTS)
      await this.#writeTiles(files.slice(at, at + MAX_DRAFTS))
    for (const tile of this.#edge) {
      if (tile.width > 0) tile.hasPartial = true
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
    this.#named.clear()
    for (const tile of this.#edge) tile.writtenWidth = 0
  }

  /** Removes the partial tiles that full ones stand for, once a checkpoint covers these. */
  removePartial(full: readonly FullTile[]): void {
    for (const { level, index, hasPartial } of full) {
      if (!hasPartial) continue
      const partial = join(this.#directory, `${tilePath(level, index)}.p`)
      this.#named.delete(partial)
      try {
        rmSync(partial, { recursive: true, force: true })
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
        hasPartial: false,
      })
    }
    return this.#edge[level] as EdgeTile
  }

  /** A reader sees all of a tile or nothing. */
  async #writeTiles(files: readonly { readonly name: string; readonly bytes: Buffer }[]): Promise<void> {
    const drafts: Draft[] = []
    try {
      for (const { name, bytes } of files) {
        const path = join(this.#directory, name)
        const fd = this.#openDraft(path)
        drafts.push({ fd, path })
        for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at)
      }
      await syncAll(drafts)
    } catch (error) {
      for (const { path } of drafts) rmSync(draftOf(path), { force: true })
      throw error
    } finally {
      for (const { fd } of drafts) closeSync(fd)
    }
    for (const { path } of drafts) {
      renameSync(draftOf(path), path)
      this.#nameIn(dirname(path))
    }
  }

  #openDraft(path: string): number {
    try {
      return openSync(draftOf(path), WRITE_ANEW, OWNER_ONLY)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
      return openSync(draftOf(path), WRITE_ANEW, OWNER_ONLY)
    }
  }

  /** A name has come into that directory, whose own name may be of a process that ended before it had synced it. */
  #nameIn(directory: string): void {
    this.#unsynced.add(directory)
    const above = dirname(this.#directory)
    for (let at = directory; at !== above && !this.#named.has(at); at = dirname(at)) {
      this.#named.add(at)
      this.#unsynced.add(dirname(at))
    }
  }
}

/** @throws Error of the system, when none is under way any more. */
async function syncAll(drafts: readonly Draft[]): Promise<void> {
  const left = drafts.values()
  const inTurn = async () => {
    for (const { fd } of left) await synced(fd)
  }
  const ends = await Promise.allSettled(Array.from({ length: SYNCS_AT_ONCE }, inTurn))
  const failed = ends.find((end) => end.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

function synced(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fsync(fd, (error) => (error === null ? resolve() : reject(error)))
  })
}

function draftOf(path: string): string {
  return `${path}.tmp`
}
