import { existsSync, realpathSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Checkpoint } from '../audit/seals/checkpoint.ts'
import { HASH_BYTES, type HashText } from '../audit/seals/hashes.ts'
import { LineHasher } from '../audit/seals/line-hasher.ts'
import { checkpointFile, hashesOnLevel, TILE_WIDTH, tilePath, tileWidth } from '../audit/seals/tiles.ts'
import { blocksOf } from '../audit/segments/read-segment.ts'
import type { Segment } from '../audit/segments/segment.ts'
import { makeDirectory, WRITE_ANEW, withFile } from '../storage/line-file.ts'
import type { OnRead } from './records/scan-trail.ts'
import { firstLeafOf, ProvenTiles } from './verify/proven-tiles.ts'
import { EvidenceFault, readCheckpoint } from './verify/trusted-key.ts'
import type { Evidence } from './verify/verify-trail.ts'

/**
 * Writes a log as C2SP tlog-tiles, with entry bundles made from the lines of the trail.
 * @param given see `Evidence` @param to a directory: it is made, and files of an earlier export are overwritten
 * @throws EvidenceFault when lines and log do not agree, or the log is damaged @throws Error when `to` is the log itself
 */
export async function exportLog(
  given: Evidence['segments'],
  directory: string,
  to: string,
  onRead?: OnRead,
): Promise<{ checkpoint: Checkpoint; bundles: number }> {
  if (existsSync(to) && realpathSync(to) === realpathSync(directory))
    throw new Error(`${to} is the log itself: export to another directory`)
  // Read once: a running gateway replaces it.
  const { note, checkpoint } = readCheckpoint(checkpointFile(directory))
  const segments = typeof given === 'function' ? await given() : given
  const tiles = new ProvenTiles(directory, checkpoint)
  const first = firstLeafOf(await firstHashes(segments), tiles, checkpoint.size) ?? 0
  const proven = provenTiles(tiles, checkpoint.size, first)
  const bundles = await writeBundles(segments, tiles, checkpoint.size, first, to, onRead)
  for (const { level, index, path } of proven) {
    const bytes = tiles.tile(level, index)
    if (bytes === undefined) throw new Error(`${join(directory, path)} was removed meanwhile: try again`)
    write(to, path, bytes)
  }
  write(to, basename(checkpointFile(to)), note)
  return { checkpoint, bundles }
}

interface TileName {
  readonly level: number
  readonly index: number
  readonly path: string
}

/** @throws EvidenceFault when a tile over `first` or a later leaf is unproven */
function provenTiles(tiles: ProvenTiles, size: number, first: number): TileName[] {
  const names = tileNames(size)
  const needed = names.filter(({ level, index }) => (index + 1) * TILE_WIDTH ** (level + 1) > first)
  const fault = (name: TileName, what: string) =>
    new EvidenceFault(`${join(tiles.reader.directory, name.path)} ${what}: run "audit verify"`)
  const missing = needed.find(({ level, index }) => tiles.tile(level, index) === undefined)
  if (missing !== undefined) throw fault(missing, 'is missing or was cut')
  const isProven = ({ level, index }: TileName) => tiles.isProven(level, index)
  const unproven = needed.find((name) => !isProven(name))
  if (unproven !== undefined) throw fault(unproven, 'does not lead to the signed root')
  return names.filter(isProven)
}

/** Highest tiles first: a tile is proven by the one above it. */
function tileNames(size: number): TileName[] {
  const names: TileName[] = []
  for (let level = 0; hashesOnLevel(size, level) > 0; level++) {
    for (let index = 0; tileWidth(size, level, index) > 0; index++) {
      names.push({ level, index, path: tilePath(level, index, tileWidth(size, level, index)) })
    }
  }
  return names.reverse()
}

/** Writes each entry after its length. Leaves out a bundle that begins before the first line. */
async function writeBundles(
  segments: readonly Segment[],
  tiles: ProvenTiles,
  size: number,
  first: number,
  to: string,
  onRead: OnRead | undefined,
): Promise<number> {
  const totalBytes = segments.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  let [doneBytes, index, bundles] = [0, first, 0]
  let parts: Buffer[] = []
  const add = (entry: Buffer) => {
    const length = Buffer.alloc(2)
    length.writeUInt16BE(entry.length)
    parts.push(length, Buffer.from(entry))
    index++
    if (index % TILE_WIDTH !== 0 && index < size) return
    const bundle = Math.floor((index - 1) / TILE_WIDTH)
    if (bundle * TILE_WIDTH >= first) {
      write(to, tilePath('entries', bundle, tileWidth(size, 0, bundle)), Buffer.concat(parts))
      bundles++
    }
    parts = []
  }
  for (const segment of segments) {
    const hasher = new LineHasher((hash, bytes, start, end) => {
      if (index >= size) return
      const tile = tiles.tile(0, Math.floor(index / TILE_WIDTH))?.toString('latin1')
      const at = (index % TILE_WIDTH) * HASH_BYTES
      if (tile?.slice(at, at + HASH_BYTES) !== hash) {
        throw new EvidenceFault(
          `${segment.path} and the log in ${tiles.reader.directory} do not agree: run "audit verify"`,
        )
      }
      add(bytes.subarray(start, end))
    })
    for await (const block of blocksOf(segment)) hasher.push(block)
    doneBytes += segment.sizeBytes
    onRead?.(doneBytes, totalBytes)
  }
  if (index < size)
    throw new EvidenceFault(`the trail ends before the log in ${tiles.reader.directory}: run "audit verify"`)
  return bundles
}

async function firstHashes([segment]: readonly Segment[]): Promise<HashText[]> {
  const hashes: HashText[] = []
  if (segment === undefined) return hashes
  const hasher = new LineHasher((hash) => hashes.push(hash))
  for await (const block of blocksOf(segment)) {
    hasher.push(block)
    break
  }
  return hashes
}

function write(directory: string, name: string, bytes: Buffer): void {
  const path = join(directory, name)
  makeDirectory(dirname(path))
  // `withFile` makes it as private as the trail.
  withFile(path, WRITE_ANEW, (fd) => writeFileSync(fd, bytes))
}
