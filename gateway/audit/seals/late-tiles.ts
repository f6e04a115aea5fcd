import { fsyncSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { removeFile, replaceFile, withFile } from '../../storage/line-file.ts'
import { readIfThere } from '../../storage/regular-file.ts'
import { blocksOf } from '../segments/read-segment.ts'
import type { Segment } from '../segments/segment.ts'
import { segmentsOfTrail } from '../segments/trail-segments.ts'
import { LastLeaves, newestSealedLine } from './find-sealed.ts'
import type { HashText } from './hashes.ts'
import { LineHasher } from './line-hasher.ts'
import type { TileFile, TileFiles } from './tile-files.ts'
import { hashesIn, TILE_WIDTH, type TileReader, tilePath, unlessFaulty } from './tiles.ts'
import { rootOf, TILE_HEIGHT } from './tree-edge.ts'

/** After this time, Linux has usually written a tile itself. Its sync then costs a fifth of one right after the write. */
const LATE_MS = 40_000
/** Twice the full tiles that one checkpoint can add, so that syncs keep up. */
const MAX_SYNCS = 256
/** Tiles after which the mark (`unsynced-tiles`) is replaced. */
const STRIDE = 1024
/** Tiles before a lost tile. Their leaves tell where in the trail the lost tile begins. */
const TILES_BEFORE = 2
const MAX_PLACES = 3

/**
 * Full tiles of leaves. Syncing each at once would be a quarter of the cost of sealing, so they are synced late. A
 * power failure may destroy tiles of the last minute. The next start makes these again from the synced trail
 * (`recover`). The file `unsynced-tiles`, which is synced first, names the first unsynced tile.
 */
export class LateTiles {
  readonly #files: TileFiles
  #waiting: { readonly index: number; readonly writtenAtMs: number }[] = []
  #markedFrom: number | undefined

  constructor(files: TileFiles) {
    this.#files = files
  }

  /** @param nowMs steady */
  write(tiles: readonly { readonly index: number; readonly bytes: Buffer }[], nowMs: number): void {
    const [first] = tiles
    if (first === undefined) return
    if (this.#markedFrom === undefined) this.#mark(first.index)
    this.#files.write(tiles.map(({ index, bytes }) => ({ name: tilePath(0, index), bytes })))
    const last = this.#waiting.at(-1)?.index ?? -1
    for (const { index } of tiles) if (index > last) this.#waiting.push({ index, writtenAtMs: nowMs })
  }

  forget(): void {
    this.#markedFrom = undefined
  }

  /** @param nowMs by the steady clock; if infinite, every tile is due @returns whether more tiles may be due */
  sync(nowMs: number): boolean {
    const due = this.#waiting.slice(0, MAX_SYNCS).filter(({ writtenAtMs }) => nowMs - writtenAtMs >= LATE_MS)
    if (due.length === 0) return false
    for (const { index } of due) {
      const path = join(this.#files.directory, tilePath(0, index))
      if (statSync(path, { throwIfNoEntry: false }) === undefined) continue
      withFile(path, 'r', fsyncSync)
      this.#files.addName(path)
    }
    this.#files.syncNames()
    this.#waiting.splice(0, due.length)
    const next = this.#waiting[0]
    if (next === undefined) this.#unmark()
    else if (next.index - (this.#markedFrom ?? 0) >= STRIDE) this.#mark(next.index)
    return due.length === MAX_SYNCS
  }

  /**
   * Writes again the tiles that the disk may have lost. A tile counts only if the tile above has its root; otherwise it
   * is made from the trail.
   * @param tree that the checkpoint covers @param trail the audit file @returns a fault, if any
   */
  async recover(tree: TileReader, trail: string): Promise<string | undefined> {
    const from = firstUnsynced(this.#files.directory)
    if (from === undefined) return undefined
    const lost = new Set<number>()
    let found: TileFile[] = []
    for (let index = from; index < Math.floor(tree.size / TILE_WIDTH); index++) {
      const bytes = readTile(tree, index)
      if (bytes === undefined) lost.add(index)
      else found.push({ name: tilePath(0, index), bytes })
      if (found.length < MAX_SYNCS) continue
      await this.#files.writeSynced(found)
      found = []
    }
    await this.#files.writeSynced(found)
    const fault = await this.#makeAgain(tree, trail, lost)
    this.#waiting = []
    this.#unmark()
    return fault
  }

  async #makeAgain(tree: TileReader, trail: string, lost: Set<number>): Promise<string | undefined> {
    if (lost.size === 0) return undefined
    let cause = 'their lines are missing'
    const tiles = tilesOfTrail(tree, trail, [...lost])
    for (;;) {
      const next = await tiles.next().catch((error: Error) => {
        cause = error.message
      })
      if (next === undefined || next.done) break
      const { index, bytes } = next.value
      await this.#files.writeSynced([{ name: tilePath(0, index), bytes }])
      lost.delete(index)
    }
    if (lost.size === 0) return undefined
    const names = [...lost].map((index) => tilePath(0, index))
    const some = `${names.slice(0, 3).join(', ')}${names.length > 3 ? ` and ${names.length - 3} more` : ''}`
    return `the disk has not kept ${some}, and the trail cannot replace them: ${cause}`
  }

  #mark(index: number): void {
    replaceFile(markFile(this.#files.directory), [`${index}\n`])
    this.#markedFrom = index
  }

  /** Needs no sync: if a power failure brings the mark back, tiles are checked in vain. */
  #unmark(): void {
    removeFile(markFile(this.#files.directory))
    this.#markedFrom = undefined
  }
}

function markFile(directory: string): string {
  return join(directory, 'unsynced-tiles')
}

export function firstUnsynced(directory: string): number | undefined {
  const mark = readIfThere(markFile(directory))
  if (mark === undefined) return undefined
  const index = Number(mark.toString())
  // If the file has another text, all tiles are checked.
  return Number.isSafeInteger(index) && index >= 0 ? index : 0
}

function readTile(tree: TileReader, index: number): Buffer | undefined {
  const bytes = unlessFaulty(() => tree.tile(0, index))
  return bytes !== undefined && hasRoot(tree, index, bytes) ? bytes : undefined
}

function hasRoot(tree: TileReader, index: number, bytes: Buffer): boolean {
  return unlessFaulty(() => tree.subtree(TILE_HEIGHT, index))?.equals(rootOf(hashesIn(bytes))) === true
}

type MadeTile = { readonly index: number; readonly bytes: Buffer }
type LeafPlace = NonNullable<Awaited<ReturnType<typeof newestSealedLine>>>

/** Makes tiles from the trail, if their root is right. Where lines are gone, it tries a later tile. */
async function* tilesOfTrail(
  tree: TileReader,
  trail: string,
  indexes: readonly number[],
): AsyncGenerator<MadeTile> {
  const segments = await segmentsOfTrail(trail)
  let tries = 0
  for (const index of indexes) {
    const place = await placeBefore(tree, segments, index)
    if (place === undefined) continue
    let isRight = false
    for await (const tile of tilesBehind(tree, segments, place, indexes)) {
      isRight = true
      yield tile
    }
    // Each try may read the whole trail.
    if (isRight || ++tries === MAX_PLACES) return
  }
}

async function* tilesBehind(
  tree: TileReader,
  segments: readonly Segment[],
  place: LeafPlace,
  indexes: readonly number[],
): AsyncGenerator<MadeTile> {
  const wanted = new Set(indexes)
  const endLeaf = (Math.max(...indexes) + 1) * TILE_WIDTH
  const made: MadeTile[] = []
  let leaf = place.leaf + 1
  let hashes: HashText[] = []
  const hasher = new LineHasher((hash) => {
    if (leaf % TILE_WIDTH === 0) hashes = []
    hashes.push(hash)
    leaf++
    const index = leaf / TILE_WIDTH - 1
    if (wanted.has(index) && hashes.length === TILE_WIDTH)
      made.push({ index, bytes: Buffer.from(hashes.join(''), 'latin1') })
  })
  for (const [i, segment] of segments.slice(place.index).entries()) {
    for await (const block of blocksOf(segment, i === 0 ? place.position : 0)) {
      hasher.push(block)
      for (const tile of made.splice(0)) if (hasRoot(tree, tile.index, tile.bytes)) yield tile
      if (leaf >= endLeaf) return
    }
    hasher.reset()
  }
}

async function placeBefore(
  tree: TileReader,
  segments: readonly Segment[],
  index: number,
): Promise<LeafPlace | undefined> {
  if (index === 0) return { index: 0, position: 0, leaf: -1 }
  const leaves = new LastLeaves()
  for (let tile = index - 1; tile >= Math.max(0, index - TILES_BEFORE); tile--) {
    leaves.addTile(tile, readTile(tree, tile)?.toString('latin1') ?? '')
  }
  return leaves.isEmpty ? undefined : newestSealedLine(segments, leaves)
}
