import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { readIfThere } from '../../storage/regular-file.ts'
import { HASH_BYTES } from './hashes.ts'
import type { Subtrees } from './proofs.ts'
import { rootOf, TILE_HEIGHT } from './tree-edge.ts'

export const TILE_WIDTH = 256

/** Enough for any proof of one leaf. */
const CACHED_TILES = 64

/** `data/audit-log` beside `data/audit.ndjson`. */
export function logDirectory(auditFile: string): string {
  return `${auditFile.replace(/\.ndjson$/, '')}-log`
}

export function checkpointFile(directory: string): string {
  return join(directory, 'checkpoint')
}

/** Path of a tile (C2SP tlog-tiles): `tile/0/x001/234`; partial: `tile/0/x001/234.p/5`. */
export function tilePath(level: number | 'entries', index: number, width = TILE_WIDTH): string {
  const groups: string[] = []
  for (let rest = index; groups.length === 0 || rest > 0; rest = Math.floor(rest / 1000)) {
    groups.unshift(String(rest % 1000).padStart(3, '0'))
  }
  const last = groups.pop()
  const path = `tile/${level}/${groups.map((group) => `x${group}/`).join('')}${last}`
  return width === TILE_WIDTH ? path : `${path}.p/${width}`
}

export function hashesOnLevel(size: number, level: number): number {
  return Math.floor(size / TILE_WIDTH ** level)
}

/** The first full tile of a level that was not pruned; `end` if none. Tiles are pruned in order. */
export function firstTile(directory: string, level: number | 'entries', end: number): number {
  let [low, high] = [0, end]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (existsSync(join(directory, tilePath(level, middle)))) high = middle
    else low = middle + 1
  }
  return low
}

export function tileWidth(size: number, level: number, index: number): number {
  return Math.max(0, Math.min(TILE_WIDTH, hashesOnLevel(size, level) - index * TILE_WIDTH))
}

/** Partial tiles on the right edge, at most one a level. */
export function partialTiles(size: number): { level: number; index: number; width: number }[] {
  const tiles: { level: number; index: number; width: number }[] = []
  for (let level = 0, hashes = size; hashes > 0; level++, hashes = hashesOnLevel(size, level)) {
    const width = hashes % TILE_WIDTH
    if (width > 0) tiles.push({ level, index: Math.floor(hashes / TILE_WIDTH), width })
  }
  return tiles
}

/** A tile is missing, unreadable, or of a wrong length. */
export class TileFault extends Error {}

export function unlessFaulty<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof TileFault) return undefined
    throw error
  }
}

/** Reads tiles as a tree of a certain size, whose checkpoint the caller has verified. */
export class TileReader implements Subtrees {
  readonly directory: string
  readonly size: number
  readonly #cache = new Map<string, Buffer>()

  constructor(directory: string, size: number) {
    this.directory = directory
    this.size = size
  }

  /** @throws TileFault */
  tile(level: number, index: number): Buffer {
    const width = tileWidth(this.size, level, index)
    const path = tilePath(level, index, width)
    const cached = this.#cache.get(path)
    if (cached !== undefined) return cached
    if (width === 0) throw new TileFault(`a tree of ${this.size} has no ${path}`)
    const bytes = this.#read(level, index, width)
    if (this.#cache.size >= CACHED_TILES) this.#cache.clear()
    this.#cache.set(path, bytes)
    return bytes
  }

  subtree(height: number, index: number): Buffer {
    const level = Math.floor(height / TILE_HEIGHT)
    const count = 2 ** (height % TILE_HEIGHT)
    const first = index * count
    const tile = this.tile(level, Math.floor(first / TILE_WIDTH))
    const at = (first % TILE_WIDTH) * HASH_BYTES
    if (at + count * HASH_BYTES > tile.length) {
      throw new TileFault(`a tree of ${this.size} has no subtree ${index} of height ${height}`)
    }
    return rootOf(hashesIn(tile.subarray(at, at + count * HASH_BYTES)))
  }

  /** Reads a partial tile or, if it was deleted, the full one, which a power failure may have damaged. */
  #read(level: number, index: number, width: number): Buffer {
    const path = join(this.directory, tilePath(level, index, width))
    const full = join(this.directory, tilePath(level, index))
    const bytes = tileIfThere(path) ?? tileIfThere(full)?.subarray(0, width * HASH_BYTES)
    if (bytes === undefined) throw new TileFault(`${path} is missing`)
    if (bytes.length === width * HASH_BYTES) return bytes
    throw new TileFault(`${path} has ${bytes.length} bytes, but must have ${width * HASH_BYTES}`)
  }
}

export function* hashesIn(tile: Buffer): Generator<Buffer, void, undefined> {
  for (let at = 0; at < tile.length; at += HASH_BYTES) yield tile.subarray(at, at + HASH_BYTES)
}

function tileIfThere(path: string): Buffer | undefined {
  try {
    return readIfThere(path)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOTDIR') return undefined
    throw new TileFault(`${path} cannot be read: ${message}`, { cause: error })
  }
}
