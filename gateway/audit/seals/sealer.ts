import { syncDirectoryOf } from '../../storage/append-file.ts'
import type { SharedTrail } from '../file/shared-trail.ts'
import { segmentsOfTrail } from '../segments/trail-segments.ts'
import type { Checkpoint } from './checkpoint.ts'
import { placeToGoOn, type SealGap } from './find-sealed.ts'
import type { HashText } from './hashes.ts'
import { isSeal } from './leaf.ts'
import { LineHasher } from './line-hasher.ts'
import type { SealKey } from './seal-key.ts'
import type { SealProgress } from './seal-progress.ts'
import { SealedLog } from './sealed-log.ts'
import {
  type FileInUse,
  fileInUse,
  type Place,
  plain,
  readerOf,
  type SegmentReader,
  Truncated,
} from './segment-reader.ts'
import { TILE_WIDTH } from './tiles.ts'

/** A checkpoint is made when so many lines wait, at the end of a tile, or one has waited for so long. */
const MAX_LINES = 32_768
const MAX_WAIT_MS = 1000
/** Lines of a removed file that wait in memory for a checkpoint. */
const MAX_LATER = 65_536
const READ_BYTES = 128 * 1024
const NO_END = Number.POSITIVE_INFINITY
/** At the end, for tiles that the disk may not have. What is left comes at the next start. */
const LAST_SYNCS_MS = 2000

/** Of a line that was read. */
interface Leaf {
  readonly hash: HashText
  readonly isRecord: boolean
}

export interface SealerOptions {
  /** The audit file. */
  readonly file: string
  /** Of the log. */
  readonly directory: string
  readonly trail: Pick<SharedTrail, 'committed' | 'generation'>
  readonly key: SealKey
  readonly progress: SealProgress
  /** Milliseconds, steady. */
  readonly now: () => number
  onSealed(checkpoint: Checkpoint): void
  onGap(gap: SealGap): void
  /** Something was removed or changed that nobody but the gateway may touch. Sealing goes on. */
  onFault(message: string): void
}

/**
 * Seals the trail while it is written: reads its lines as far as they are committed, and makes a checkpoint when one has
 * waited for a second or 32,768 wait, at the end of each segment, and at the end. With 32,768 it waits for the next full tile of
 * leaves: a partial one would be a file more, soon to be removed. Where a run before left off is found by the last leaf of its
 * tree.
 *
 * A checkpoint covers only lines that `fdatasync` has covered, so that a power failure never looks like tampering. The
 * AUDIT_SEAL lines that follow from checkpoints are leaves too, but no reason for another one.
 *
 * Every step may fail and be called again.
 */
export class Sealer {
  readonly #options: SealerOptions
  #log: SealedLog
  readonly #hasher: LineHasher
  #reader: SegmentReader | undefined
  /** Generation of the trail whose file is being read; a lower one for a segment that was closed before. */
  #generation = 0
  /** The file is in use, so its lines are read as far as they are committed. */
  #isInUse = false
  /** The file was removed, and closed when all of it was read. */
  #hasLetGo = false
  /** The last read has not reached the end of what is committed. */
  #isBehind = false
  /** All that the trail had at that time stands before that place, which has not been read yet. */
  #goal: { readonly generation: number; readonly end: number; readonly atMs: number } | undefined
  /** All that the trail had at this time is in the tree. */
  #readAtMs = 0
  /** Lines since the last checkpoint, without AUDIT_SEAL lines, and when the first came. */
  #unsealed = 0
  #sinceMs = 0
  /** The tree ends with a full tile, and is to be sealed: what was read behind it comes later. */
  #isFull = false
  #later: Leaf[] = []
  /**
   * A sync has failed, perhaps in a process before: what is not sealed yet is written again before it is. A log that begins
   * has no such process before it.
   */
  #isDoubtful: boolean
  /** A start only supposes that the disk has failed before, and says nothing. */
  readonly #doubt = { onLasting: (fault: string) => this.#hasFailed && this.#options.onFault(fault) }
  #hasFailed = false
  /** A sync has failed: what was read since the last checkpoint is read again. */
  #startsOver = false

  /** @throws Error that names the file, when the log cannot be continued. */
  constructor(options: SealerOptions) {
    this.#options = options
    this.#log = SealedLog.open(options.directory, options.key)
    this.#hasher = new LineHasher((hash, bytes, start, end) => {
      this.#take({ hash, isRecord: !isSeal(bytes, start, end) })
    }, READ_BYTES)
    options.progress.sealedSize = this.#log.sealedSize
    this.#isDoubtful = this.#log.size > 0
  }

  /** There is more to read than what was added meanwhile. */
  get isBehind(): boolean {
    return this.#isBehind
  }

  /** Reads what is new, and seals what has waited. @returns whether there is more to read at once. */
  async poll(): Promise<boolean> {
    if (this.#startsOver) this.#startOver()
    const nowMs = this.#options.now()
    const more = await this.#advance(nowMs)
    const isDue = this.#isFull || (this.#unsealed > 0 && nowMs - this.#sinceMs >= MAX_WAIT_MS)
    if (isDue && !(more && this.#isLeft)) {
      await this.#seal()
      this.#sinceMs = nowMs
    }
    return more || isDue
  }

  /** Seals everything that is committed. */
  async finish(): Promise<void> {
    while (await this.poll());
    while (this.#unsealed > 0) await this.#seal()
    const endMs = this.#options.now() + LAST_SYNCS_MS
    while (this.#log.syncLate(Number.POSITIVE_INFINITY) && this.#options.now() < endMs);
  }

  close(): void {
    this.#reader?.close()
  }

  #take(leaf: Leaf): void {
    if (leaf.isRecord) this.#unsealed++
    if (this.#isFull) {
      this.#later.push(leaf)
      return
    }
    this.#log.append(leaf.hash)
    this.#isFull = this.#unsealed >= MAX_LINES && this.#log.size % TILE_WIDTH === 0
  }

  /** The file was removed, and another is in use: it is read before it is sealed, because it may hold the room for that. */
  get #isLeft(): boolean {
    const isOld = this.#options.trail.generation !== this.#generation
    return isOld && this.#later.length < MAX_LATER && this.#reader?.isRemoved === true
  }

  /** @returns whether something was done. */
  async #advance(nowMs: number): Promise<boolean> {
    const { trail, progress } = this.#options
    if (this.#hasLetGo) return this.#beginNext()
    // While a checkpoint cannot be written, what waits in memory is bounded.
    if (this.#isFull && !this.#isLeft) return false
    const reader = this.#reader ?? (await this.#begin())
    if (reader === undefined) return false
    const { generation, end } = trail.committed()
    if (generation !== this.#generation) this.#isInUse = false
    this.#goal ??= { generation, end, atMs: nowMs }
    const before = this.#unsealed
    const count = await this.#read(reader, this.#isInUse ? end : NO_END)
    if (before === 0 && this.#unsealed > 0) this.#sinceMs = nowMs
    progress.unsealedRecords = this.#unsealed
    if (reader === this.#reader) this.#reached(reader.position)
    this.#isBehind = !this.#isInUse || reader.position < end
    if (count > 0) return true
    return this.#isInUse ? false : this.#beginNext()
  }

  /** The tree has everything up to here, but for lines that wait in memory. */
  #reached(position: number): void {
    const goal = this.#goal
    if (goal === undefined || this.#later.length > 0 || this.#generation < goal.generation) return
    if (this.#generation === goal.generation && position < goal.end) return
    this.#goal = undefined
    this.#readAtMs = goal.atMs
    if (this.#unsealed === 0) this.#options.progress.settledAtMs = goal.atMs
  }

  async #read(reader: SegmentReader, end: number): Promise<number> {
    try {
      return await reader.read(this.#hasher, end)
    } catch (error) {
      if (!(error instanceof Truncated)) throw error
      await this.#sealAll()
      this.#options.onFault(error.message)
      this.#close()
      return 0
    }
  }

  /** The segment has been read to its end: seals it, and goes on with the next. */
  async #beginNext(): Promise<boolean> {
    this.#hasLetGo ||= this.#isLeft
    if (this.#hasLetGo) this.#close()
    await this.#sealAll()
    const { file } = this.#options
    const inUse = fileInUse(this.#options.trail)
    if (inUse === undefined) return false
    const behind = inUse.generation - this.#generation
    const segments = behind === 1 ? [plain(file)] : await segmentsOfTrail(file)
    const own = segments.findIndex((one) => 'inode' in one && one.inode === this.#reader?.inode)
    const index = own === -1 ? Math.max(0, segments.length - behind) : own + 1
    return this.#goOnAt({ segments, index, position: 0 }, inUse)
  }

  /** @returns false when a rotation is under way: try again. */
  #goOnAt({ segments, index, position }: Place, inUse: FileInUse): boolean {
    const segment = segments[index]
    if (segment === undefined || this.#options.trail.generation !== inUse.generation) return false
    const reader = readerOf(segment, position, this.#isDoubtful ? this.#doubt : undefined)
    const behind = segments.length - 1 - index
    if (behind === 0 && reader.inode !== inUse.inode) {
      reader.close()
      return false
    }
    try {
      // The name of a new file must survive a power failure as its lines do.
      syncDirectoryOf(this.#options.file)
    } catch (error) {
      reader.close()
      throw error
    }
    this.#close()
    this.#reader = reader
    this.#generation = inUse.generation - behind
    this.#isInUse = behind === 0
    this.#hasLetGo = false
    if (this.#isInUse) this.#isDoubtful = false
    return true
  }

  #startOver(): void {
    const { directory, key } = this.#options
    this.#close()
    this.#log = SealedLog.open(directory, key)
    this.#unsealed = 0
    this.#isFull = false
    this.#later = []
    this.#isDoubtful = true
    this.#startsOver = false
  }

  #close(): void {
    this.#reader?.close()
    this.#reader = undefined
    this.#hasher.reset()
  }

  async #begin(): Promise<SegmentReader | undefined> {
    const { trail, file, progress, onFault } = this.#options
    const inUse = fileInUse(trail)
    if (inUse === undefined) return undefined
    this.#goal = undefined
    this.#readAtMs = progress.settledAtMs
    const fault = await this.#log.recover(file)
    if (fault !== undefined) onFault(fault)
    this.#goOnAt(await placeToGoOn(this.#log, this.#options), inUse)
    return this.#reader
  }

  /** AUDIT_SEAL lines too. */
  async #sealAll(): Promise<void> {
    while (this.#log.size > this.#log.sealedSize) await this.#seal()
  }

  async #seal(): Promise<void> {
    const { progress, now, onSealed, onFault } = this.#options
    const nowMs = now()
    this.#sync(nowMs)
    const checkpoint = await this.#log.seal(nowMs, (what) =>
      onFault(`${what}, while the gateway ran; the tree goes on, older tiles may be missing`),
    )
    this.#unsealed = 0
    this.#isFull = false
    for (const leaf of this.#later.splice(0)) this.#take(leaf)
    progress.sealedSize = checkpoint.size
    progress.unsealedRecords = this.#unsealed
    progress.settledAtMs = this.#readAtMs
    onSealed(checkpoint)
  }

  /** After an error nobody knows what the disk has dropped. */
  #sync(nowMs: number): void {
    try {
      this.#log.syncLate(nowMs)
      this.#reader?.sync()
    } catch (error) {
      this.#startsOver = true
      this.#hasFailed = true
      throw error
    }
  }
}
