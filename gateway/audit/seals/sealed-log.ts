import { makeDirectory, replaceFile } from '../../storage/line-file.ts'
import { readIfThere } from '../../storage/regular-file.ts'
import { giveWay } from '../give-way.ts'
import { type Checkpoint, checkpointText, parseCheckpoint } from './checkpoint.ts'
import { LastLeaves } from './find-sealed.ts'
import type { HashText } from './hashes.ts'
import { LateTiles } from './late-tiles.ts'
import { rangeHash } from './proofs.ts'
import type { SealKey } from './seal-key.ts'
import { ed25519Verifier, parseNote, signersOf } from './signed-note.ts'
import { TileFiles } from './tile-files.ts'
import { TileWriter } from './tile-writer.ts'
import { checkpointFile, TILE_WIDTH, TileReader } from './tiles.ts'
import { subtreeHeights, TreeEdge } from './tree-edge.ts'

/** Such a batch takes some 0.1 ms. */
const LEAVES_AT_ONCE = 64

/** @returns undefined when there is none @throws Error that names the file, when another key or log has sealed it */
export function readOwnCheckpoint(directory: string, key: SealKey): Checkpoint | undefined {
  const file = checkpointFile(directory)
  const text = readIfThere(file)
  if (text === undefined) return undefined
  try {
    const note = parseNote(text)
    const checkpoint = parseCheckpoint(note.text)
    if (checkpoint.origin !== key.origin) {
      throw new Error(
        `is of the log ${checkpoint.origin}, and the seal key and audit.origin say ${key.origin}`,
      )
    }
    if (signersOf(note, [ed25519Verifier(key.verifier)]).length > 0) return checkpoint
    throw new Error('was signed by another key')
  } catch (error) {
    throw ofAnotherKey(file, (error as Error).message, error)
  }
}

/** @throws Error that says what to do, when there is a checkpoint, which a new key cannot have signed */
export function refuseToReplaceKey(directory: string, keyFile: string): void {
  const file = checkpointFile(directory)
  if (readIfThere(file) === undefined) return
  throw ofAnotherKey(file, `needs the key that has signed it, and ${keyFile} is missing`)
}

function ofAnotherKey(file: string, why: string, cause?: unknown): Error {
  const message = `audit log ${file} ${why}: put the key back, or move the directory away to begin a log`
  return new Error(message, { cause })
}

/** The log of a trail in its gateway: a tree that grows leaf by leaf, and becomes a checkpoint by `seal`. */
export class SealedLog {
  readonly #directory: string
  readonly #key: SealKey
  readonly #edge: TreeEdge
  /** After an error of its `sync` open the log again, and `recover`. */
  readonly late: LateTiles
  readonly #tiles: TileWriter
  #checkpoint: Checkpoint | undefined
  /** The last one that was to be written: after a failure it may be there all the same. */
  #attempted: Checkpoint | undefined

  private constructor(directory: string, key: SealKey, checkpoint: Checkpoint | undefined) {
    const reader = new TileReader(directory, checkpoint?.size ?? 0)
    const files = new TileFiles(directory)
    const late = new LateTiles(files)
    const tiles = TileWriter.from(reader, files, late)
    this.#directory = directory
    this.late = late
    this.#key = key
    this.#checkpoint = checkpoint
    this.#tiles = tiles
    this.#edge = TreeEdge.from(reader.size, subtreesOf(reader), (level, hash) => tiles.add(level, hash))
  }

  /** Continues a log, or begins one. @throws Error that names the file, when its key is another or its last tiles are damaged */
  static open(directory: string, key: SealKey): SealedLog {
    const log = new SealedLog(directory, key, readOwnCheckpoint(directory, key))
    if (log.#checkpoint === undefined || log.#edge.root().equals(log.#checkpoint.root)) return log
    throw new Error(`audit log ${directory} is damaged: its tiles have another root than its checkpoint`)
  }

  /** With unsealed leaves. */
  get size(): number {
    return this.#edge.size
  }

  get sealedSize(): number {
    return this.#checkpoint?.size ?? 0
  }

  append(hash: HashText): void {
    this.#edge.append(hash)
    if (this.#edge.size % LEAVES_AT_ONCE === 0) giveWay()
  }

  /** As `LateTiles.recover`, before anything else. @param trail the audit file */
  recover(trail: string): Promise<string | undefined> {
    return this.late.recover(new TileReader(this.#directory, this.sealedSize), trail)
  }

  /** The last sealed leaves: fewer, if tiles are missing. */
  lastLeaves(count: number): LastLeaves {
    const reader = new TileReader(this.#directory, this.sealedSize)
    const leaves = new LastLeaves()
    const first = Math.floor(Math.max(0, reader.size - count) / TILE_WIDTH)
    for (let tile = Math.ceil(reader.size / TILE_WIDTH) - 1; tile >= first; tile--) {
      try {
        leaves.addTile(tile, reader.tile(0, tile).toString('latin1'))
      } catch {
        // It is missing.
      }
    }
    return leaves
  }

  /**
   * Makes a checkpoint over all leaves: tiles first. May be called again after a failure.
   * @param nowMs steady @param onRemoved called when the directory was removed, or its checkpoint replaced, since the last seal
   * @throws Error of the system
   */
  async seal(nowMs: number, onRemoved: (what: string) => void): Promise<Checkpoint> {
    if (!this.#hasOwnCheckpoint()) {
      onRemoved(`${checkpointFile(this.#directory)} was ${this.#whatHappened()}`)
      this.late.forget()
      this.#tiles.writeEdgeAgain()
    }
    makeDirectory(this.#directory)
    const full = await this.#tiles.write(nowMs)
    const { size } = this.#edge
    const checkpoint = { origin: this.#key.origin, size, root: this.#edge.root() }
    this.#attempted = checkpoint
    replaceFile(checkpointFile(this.#directory), [this.#key.seal(checkpoint)])
    this.#checkpoint = checkpoint
    this.#tiles.removePartial(full)
    return checkpoint
  }

  #whatHappened(): string {
    try {
      const found = readOwnCheckpoint(this.#directory, this.#key)
      if (found !== undefined)
        return `replaced by one of the same key over ${found.size} lines: another gateway may write this log too, or an old one was put back`
    } catch {
      // It is of another key, or there is none.
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

function subtreesOf(reader: TileReader): Buffer[] {
  let start = 0
  return subtreeHeights(reader.size).map((height) => {
    const end = start + 2 ** height
    const hash = rangeHash(reader, start, end)
    start = end
    return hash
  })
}
