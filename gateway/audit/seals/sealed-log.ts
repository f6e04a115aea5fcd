import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { makeDirectory, replaceFile } from '../../storage/line-file.ts'
import { readIfThere } from '../../storage/regular-file.ts'
import { type Checkpoint, checkpointText, parseCheckpoint } from './checkpoint.ts'
import { type EdgeTile, EdgeTiles } from './edge-tiles.ts'
import { LastLeaves } from './find-sealed.ts'
import { HASH_BYTES, type HashText } from './hashes.ts'
import { LateTiles } from './late-tiles.ts'
import { completeSubtrees } from './proofs.ts'
import type { SealKey } from './seal-key.ts'
import { ed25519Verifier, parseNote, signersOf } from './signed-note.ts'
import { TileFiles } from './tile-files.ts'
import { checkpointFile, partialTiles, TILE_WIDTH, TileReader, tilePath, unlessFaulty } from './tiles.ts'
import { TreeEdge } from './tree-edge.ts'

/** @throws Error that names the file, when the checkpoint is of another key or log */
export function readOwnCheckpoint(directory: string, key: SealKey): Checkpoint | undefined {
  const file = checkpointFile(directory)
  const text = readIfThere(file)
  if (text === undefined) return undefined
  try {
    const note = parseNote(text)
    const checkpoint = parseCheckpoint(note.text)
    if (checkpoint.origin !== key.origin) {
      throw new Error(
        `is of the log ${checkpoint.origin}, but the seal key and audit.origin name ${key.origin}`,
      )
    }
    if (signersOf(note, [ed25519Verifier(key.verifier)]).length > 0) return checkpoint
    throw new Error('was signed by another key')
  } catch (error) {
    throw ofAnotherKey(file, (error as Error).message, error)
  }
}

/** Throws where there is a checkpoint, because a new key cannot have signed it. */
export function refuseToReplaceKey(directory: string, keyFile: string): void {
  const file = checkpointFile(directory)
  if (readIfThere(file) === undefined) return
  throw ofAnotherKey(file, `needs the key that has signed it, but ${keyFile} is missing`)
}

function ofAnotherKey(file: string, why: string, cause?: unknown): Error {
  const message = `audit log ${file} ${why}: put the key back, or move the directory away to begin a log`
  return new Error(message, { cause })
}

type FullTile = Pick<EdgeTile, 'level' | 'index' | 'bytes'>

/** The log of a trail, as its gateway writes it. Tiles that could not be written wait in memory for the next `seal`. */
export class SealedLog {
  readonly #directory: string
  readonly #key: SealKey
  readonly #edge: TreeEdge
  /** After an error of `late.sync` call `recover`. */
  readonly late: LateTiles
  readonly #files: TileFiles
  readonly #edgeTiles: EdgeTiles
  #full: FullTile[] = []
  #checkpoint: Checkpoint | undefined
  /** The checkpoint tried last. It may be on the disk even if the attempt failed. */
  #attempted: Checkpoint | undefined

  private constructor(directory: string, key: SealKey, checkpoint: Checkpoint | undefined) {
    const tiles = new TileReader(directory, checkpoint?.size ?? 0)
    this.#directory = directory
    this.#files = new TileFiles(directory)
    this.late = new LateTiles(this.#files)
    this.#key = key
    this.#checkpoint = checkpoint
    this.#edgeTiles = new EdgeTiles(tiles.size, ({ level, index, bytes }) =>
      this.#full.push({ level, index, bytes: Buffer.from(bytes) }),
    )
    for (const { level, index } of partialTiles(tiles.size))
      tiles.tile(level, index).copy(this.#edgeTiles.at(level).bytes)
    this.#edge = TreeEdge.from(tiles.size, completeSubtrees(tiles, tiles.size), this.#edgeTiles.add)
  }

  /** @throws Error that names the file, when it has another key or its last tiles are damaged */
  static open(directory: string, key: SealKey): SealedLog {
    const log = new SealedLog(directory, key, readOwnCheckpoint(directory, key))
    if (log.#checkpoint === undefined || log.#edge.root().equals(log.#checkpoint.root)) return log
    throw new Error(`audit log ${directory} is damaged: its tiles have another root than its checkpoint`)
  }

  get size(): number {
    return this.#edge.size
  }

  get sealedSize(): number {
    return this.#checkpoint?.size ?? 0
  }

  append(hash: HashText): void {
    this.#edge.append(hash)
  }

  /** See `LateTiles.recover`. Call it before the first `seal`, and after a failed sync. */
  recover(trail: string): Promise<string | undefined> {
    return this.late.recover(new TileReader(this.#directory, this.sealedSize), trail)
  }

  /** Gives fewer leaves where tiles are missing. */
  lastLeaves(count: number): LastLeaves {
    const reader = new TileReader(this.#directory, this.sealedSize)
    const leaves = new LastLeaves()
    const first = Math.floor(Math.max(0, reader.size - count) / TILE_WIDTH)
    for (let tile = Math.ceil(reader.size / TILE_WIDTH) - 1; tile >= first; tile--) {
      leaves.addTile(tile, unlessFaulty(() => reader.tile(0, tile))?.toString('latin1') ?? '')
    }
    return leaves
  }

  /**
   * Writes tiles, then a checkpoint over all leaves. May be called again after a failure.
   * @param nowMs steady @param onRemoved called when the directory was removed, or its checkpoint replaced
   */
  async seal(nowMs: number, onRemoved: (what: string) => void): Promise<Checkpoint> {
    if (!this.#hasOwnCheckpoint()) {
      onRemoved(`${checkpointFile(this.#directory)} was ${this.#whatHappened()}`)
      this.late.forget()
      this.#files.forget()
      for (const tile of this.#edgeTiles.tiles) tile.from = 0
    }
    makeDirectory(this.#directory)
    const full = await this.#writeTiles(nowMs)
    const { size } = this.#edge
    const checkpoint = { origin: this.#key.origin, size, root: this.#edge.root() }
    this.#attempted = checkpoint
    replaceFile(checkpointFile(this.#directory), [this.#key.seal(checkpoint)])
    this.#checkpoint = checkpoint
    this.#removePartial(full)
    return checkpoint
  }

  /** `LateTiles` syncs the full tiles of leaves. @returns the full tiles of all levels */
  async #writeTiles(nowMs: number): Promise<readonly FullTile[]> {
    const leaves = this.#full.filter(({ level }) => level === 0)
    const above = this.#full.filter(({ level }) => level > 0)
    this.late.write(leaves, nowMs)
    await this.#files.writeSynced([
      ...above.map(({ level, index, bytes }) => ({ name: tilePath(level, index), bytes })),
      ...this.#edgeTiles.partial().map(({ level, index, width, bytes }) => ({
        name: tilePath(level, index, width),
        bytes: bytes.subarray(0, width * HASH_BYTES),
      })),
    ])
    for (const tile of this.#edgeTiles.tiles) tile.from = tile.width
    const full = this.#full
    this.#full = []
    return full
  }

  /** Call it once a checkpoint covers the full tiles. */
  #removePartial(full: readonly FullTile[]): void {
    for (const { level, index } of full) {
      const partial = join(this.#directory, `${tilePath(level, index)}.p`)
      this.#files.forget(partial)
      try {
        rmSync(partial, { recursive: true, force: true })
      } catch {
        // Partial tiles that stay only take room.
      }
    }
  }

  #whatHappened(): string {
    try {
      const found = readOwnCheckpoint(this.#directory, this.#key)
      if (found !== undefined)
        return `replaced by one of the same key over ${found.size} lines: another gateway may write this log too, or an old one was put back`
    } catch {
      // The checkpoint there is of another key, or there is none.
    }
    return 'removed or replaced'
  }

  #hasOwnCheckpoint(): boolean {
    if (this.#checkpoint === undefined) return true
    const note = readIfThere(checkpointFile(this.#directory))?.toString()
    const own = [this.#checkpoint, this.#attempted ?? this.#checkpoint]
    return own.some((checkpoint) => note?.startsWith(`${checkpointText(checkpoint)}\n`))
  }
}
