import { syncDirectoryOf } from '../../storage/append-file.ts'
import { inodeOf } from '../../storage/regular-file.ts'
import type { FilePlace } from '../file/trail-file.ts'
import { giveWay } from '../give-way.ts'
import { addForeignEnd } from '../recovery/open-requests.ts'
import { FOREIGN_HEAD } from '../seal-records.ts'
import { blocksOf, linesIn } from '../segments/read-segment.ts'
import type { Segment } from '../segments/segment.ts'
import { segmentsOfTrail } from '../segments/trail-segments.ts'
import type { Checkpoint } from './checkpoint.ts'
import { placeToGoOn, type SealGap } from './find-sealed.ts'
import { isSeal } from './hashes.ts'
import { LineHasher } from './line-hasher.ts'
import type { SealKey } from './seal-key.ts'
import type { SealProgress } from './seal-progress.ts'
import { SealedFile } from './sealed-file.ts'
import { SealedLog } from './sealed-log.ts'

const MAX_LINES = 32_768
const MAX_WAIT_MS = 1000
/** Leaves added without a pause, in some 0.2 ms. */
const LEAVES_AT_ONCE = 128
/** Under full load requests wait for each other anyway, so pauses cost more than they give. */
const LEAVES_UNDER_LOAD = 512
/** Full load: some 10,000 requests a second. */
const FULL_LOAD_BYTES_PER_MS = 4000
/** Time for an orderly stop to sync tiles. The next start syncs the rest. */
const LAST_SYNCS_MS = 2000
const FIRST_BYTES = 16_384

export type TrailNews =
  /** Place of the next `lines`. Lines before it are read from the files. */
  | ({ readonly type: 'begin' } & FilePlace)
  | { readonly type: 'moved'; readonly inode: string }
  /** Lines, or parts of them. The first was written at `atMs`, the last before `toMs`, by `steadyMs`. */
  | {
      readonly type: 'lines'
      readonly lines: Uint8Array<ArrayBuffer>
      readonly atMs: number
      readonly toMs: number
    }

interface SealerOptions {
  readonly file: string
  readonly directory: string
  readonly key: SealKey
  readonly progress: SealProgress
  readonly now: () => number
  onSealed(checkpoint: Checkpoint): void
  onGap(gap: SealGap): void
  onReadBack(records: number): void
  /** Called for faults after which sealing continues. */
  onFault(message: string): void
}

/**
 * Seals the trail while it is written. It makes a checkpoint when a line has waited for a second, when 32,768 lines
 * wait, at the end of each segment, and in `finish`. AUDIT_SEAL lines are leaves, but no reason for a checkpoint. Files
 * are read only for lines that an earlier process or thread left unsealed, or that a full queue skipped. A checkpoint
 * covers only lines that `fdatasync` has covered, so a power failure never looks like tampering. Every step may fail
 * and be called again.
 */
export class Sealer {
  readonly #options: SealerOptions
  readonly #log: SealedLog
  readonly #hasher: LineHasher
  readonly #inbox: TrailNews[] = []
  #file: SealedFile | undefined
  #reading: AsyncGenerator<Buffer, void, undefined> | undefined
  #readRecords = 0
  /** Lines since the last checkpoint, without AUDIT_SEAL lines. The first was taken at `#sinceMs`. */
  #unsealed = 0
  #sinceMs = 0
  /** When the lines being taken were written, by `steadyMs`. */
  #atMs = 0
  #leavesAtOnce = LEAVES_AT_ONCE
  #hasFailed = false
  /** False while a new log takes older lines. */
  #isContinued: boolean
  /** True while the disk may lack tiles: after a crash or a failed sync. */
  #isTreeDoubtful = true

  constructor(options: SealerOptions) {
    this.#options = options
    this.#log = SealedLog.open(options.directory, options.key)
    this.#hasher = new LineHasher((hash, bytes, start, end) => {
      if (!isSeal(bytes, start, end)) this.#countRecord()
      this.#log.append(hash)
      if (this.#log.size % this.#leavesAtOnce === 0) giveWay()
    })
    options.progress.sealedSize = this.#log.sealedSize
    options.progress.takenBytes = 0
    this.#isContinued = this.#log.size > 0
  }

  hear(news: TrailNews): void {
    this.#inbox.push(news)
  }

  /** Milliseconds until `poll` has something to do, if no news comes. */
  get restMs(): number {
    if (this.#inbox.length > 0) return 0
    return this.#unsealed > 0
      ? Math.max(0, this.#sinceMs + MAX_WAIT_MS - this.#options.now())
      : Number.POSITIVE_INFINITY
  }

  /** @returns true when there is more to do at once */
  async poll(): Promise<boolean> {
    const more = await this.#advance()
    const isDue = this.#isFull || (this.#unsealed > 0 && this.#options.now() - this.#sinceMs >= MAX_WAIT_MS)
    if (isDue) await this.#seal()
    return more || isDue
  }

  async finish(): Promise<void> {
    while (await this.poll());
    if (this.#unsealed > 0) await this.#seal()
    const endMs = this.#options.now() + LAST_SYNCS_MS
    while (this.#log.late.sync(Number.POSITIVE_INFINITY) && this.#options.now() < endMs);
  }

  close(): void {
    this.#file?.close()
  }

  #countRecord(): void {
    const { progress, now } = this.#options
    if (this.#reading !== undefined) this.#readRecords++
    if (this.#unsealed++ > 0) return
    this.#sinceMs = now()
    progress.oldestAtMs = Math.min(progress.oldestAtMs, this.#atMs)
  }

  get #isFull(): boolean {
    return this.#unsealed >= MAX_LINES
  }

  async #advance(): Promise<boolean> {
    const [news] = this.#inbox
    // Bounds the memory while a checkpoint cannot be written.
    if (news === undefined || this.#isFull) return false
    if (news.type === 'begin') return this.#readTo(news)
    if (news.type === 'moved') await this.#enter({ inode: news.inode, position: 0 }, false)
    else this.#takeLines(news)
    this.#inbox.shift()
    return true
  }

  #takeLines({ lines, atMs, toMs }: TrailNews & { readonly type: 'lines' }): void {
    const { progress } = this.#options
    this.#atMs = atMs
    const isFullLoad = lines.length > (toMs - atMs) * FULL_LOAD_BYTES_PER_MS
    this.#leavesAtOnce = isFullLoad ? LEAVES_UNDER_LOAD : LEAVES_AT_ONCE
    this.#hasher.push(lines)
    if (this.#file !== undefined) this.#file.position += lines.length
    progress.takenBytes += lines.length
    progress.unsealedRecords = this.#unsealed
    // Frees the memory at once: V8 would otherwise run full collections.
    lines.buffer.transfer(0)
  }

  async #readTo(place: FilePlace): Promise<boolean> {
    const { progress, now, onReadBack } = this.#options
    this.#reading ??= this.#blocksTo(place)
    this.#atMs = progress.oldestAtMs === Number.POSITIVE_INFINITY ? now() : progress.oldestAtMs
    try {
      const { value: block } = await this.#reading.next()
      if (block !== undefined) {
        this.#hasher.push(block)
        progress.unsealedRecords = this.#unsealed
        return true
      }
    } catch (error) {
      this.#reading = undefined
      throw error
    }
    this.#reading = undefined
    this.#inbox.shift()
    if (this.#unsealed === 0) progress.oldestAtMs = Number.POSITIVE_INFINITY
    if (this.#readRecords > 0 && this.#isContinued) {
      onReadBack(this.#readRecords)
      this.#sinceMs = Number.NEGATIVE_INFINITY
    }
    this.#readRecords = 0
    this.#isContinued = true
    return true
  }

  async *#blocksTo(target: FilePlace): AsyncGenerator<Buffer, void, undefined> {
    const { segments, index, position } = await this.#placeToRead(target)
    const last = segments.length - 1
    const ends = await foreignEnds(segments.slice(index + 1))
    for (let i = index; i <= last; i++) {
      const segment = segments[i] as Pick<Segment, 'path' | 'compression'>
      const inode = i === last ? target.inode : (inodeOf(segment.path) ?? '')
      const start = i === index ? position : 0
      const end = i === last ? target.end : (ends.get(inode) ?? Number.POSITIVE_INFINITY)
      if (this.#file === undefined || this.#file.inode !== inode)
        await this.#enter({ inode, position: start }, this.#isContinued)
      if (start >= end) continue
      let at = start
      for await (const block of blocksOf(segment, start)) {
        const part = block.subarray(0, end - at)
        at += part.length
        if (this.#file !== undefined) this.#file.position = at
        yield part
        if (at >= end) break
      }
      this.#hasher.reset()
    }
    if (this.#file !== undefined) this.#file.position = target.end
  }

  async #placeToRead({ inode }: FilePlace) {
    const { file } = this.#options
    const own = this.#file
    // The place is found by the last tiles, which a power failure may have destroyed.
    await this.#recoverTree()
    const place = own === undefined ? await placeToGoOn(this.#log, this.#options) : undefined
    if (place?.segments.length === 1 && inodeOf(file) === inode) return place
    const segments = await segmentsOfTrail(file)
    const path = place?.segments[place.index]?.path
    const index = segments.findIndex((one) =>
      own === undefined ? one.path === path : one.inode === own.inode,
    )
    const last = segments.findIndex((one) => one.inode === inode)
    if (last === -1) throw new Error(`the file in use is not among the files of ${file}`)
    return {
      segments: segments.slice(0, last + 1),
      index: index === -1 ? last : index,
      position: index === -1 ? 0 : (own?.position ?? place?.position ?? 0),
    }
  }

  async #enter(
    { inode, position }: { readonly inode: string; readonly position: number },
    isDoubtful: boolean,
  ): Promise<void> {
    const { file, progress, onFault } = this.#options
    // A removed file keeps its room on the disk until it is closed.
    if (this.#file?.isRemoved) this.#file.close()
    if (this.#log.size > this.#log.sealedSize) await this.#seal()
    // The name must survive a power failure too.
    syncDirectoryOf(file)
    const onLasting = (fault: string) => this.#hasFailed && onFault(fault)
    const next = new SealedFile({ file, inode, position }, { isDoubtful, progress, onLasting })
    this.#file?.close()
    this.#file = next
    this.#hasher.reset()
  }

  async #recoverTree(): Promise<void> {
    if (!this.#isTreeDoubtful) return
    const { file, onFault } = this.#options
    const fault = await this.#log.recover(file)
    if (fault !== undefined) onFault(fault)
    this.#isTreeDoubtful = false
  }

  async #seal(): Promise<void> {
    const { progress, now, onSealed, onFault } = this.#options
    const nowMs = now()
    await this.#recoverTree()
    try {
      this.#log.late.sync(nowMs)
      this.#file?.sync()
    } catch (error) {
      this.#hasFailed = true
      this.#isTreeDoubtful = true
      throw error
    }
    const checkpoint = await this.#log.seal(nowMs, (what) =>
      onFault(`while the gateway ran, ${what}; the tree goes on, but older tiles may be missing`),
    )
    this.#unsealed = 0
    if (this.#reading === undefined) progress.oldestAtMs = Number.POSITIVE_INFINITY
    progress.sealedSize = checkpoint.size
    progress.unsealedRecords = 0
    onSealed(checkpoint)
  }
}

/** See `OpenRequests.ends`. */
async function foreignEnds(
  segments: readonly Pick<Segment, 'path' | 'compression'>[],
): Promise<ReadonlyMap<unknown, number>> {
  const ends = new Map<unknown, number>()
  for (const segment of segments) {
    for await (const block of blocksOf(segment)) {
      for (const line of linesIn(block.subarray(0, FIRST_BYTES))) {
        const text = line.toString()
        if (text.startsWith(FOREIGN_HEAD)) addForeignEnd(ends, text)
      }
      break
    }
  }
  return ends
}
