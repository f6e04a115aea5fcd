import { typeOf } from '../audit-records.ts'
import { BackgroundThread, THREAD_LIMITS } from '../background-thread.ts'
import type { TrailSeals } from '../file/trail-file.ts'
import { sealRecord } from '../seal-records.ts'
import type { Trail } from '../trail.ts'
import type { SealGap } from './find-sealed.ts'
import type { PrivateSealKeys } from './seal-key.ts'
import { sealProgress, steadyMs } from './seal-progress.ts'
import type { FromSealer, SealJob, ToSealer } from './seal-thread.ts'

interface SealingOptions {
  readonly trail: Pick<Trail, 'file' | 'settle' | 'told'>
  readonly directory: string
  readonly keys: PrivateSealKeys
  readonly origin: string
  readonly now: () => number
  readonly finishMs?: number
  onSealed(size: number): void
  onGap(gap: SealGap): void
  onReadBack(records: number): void
  onFault(cause: string): void
}

const FINISH_MS = 3000

const STAGE_BYTES = 256 * 1024
const STAGE_MS = 200
const MAX_WAITING_BYTES = 32 * 1024 * 1024

/**
 * Seals a trail in a thread of its own. Once the queue is full, nothing is handed over until the thread has taken
 * everything. The thread then reads the skipped lines from the file.
 */
export class Sealing implements TrailSeals {
  readonly #options: SealingOptions
  readonly #progress = sealProgress()
  #stage = Buffer.allocUnsafeSlow(STAGE_BYTES)
  #staged = 0
  #stagedAtMs = 0
  #timer: NodeJS.Timeout | undefined
  #sentBytes = 0
  /** Sent lines that the thread has not taken. `bytes` counts all up to their end. */
  #sent: { readonly bytes: number; readonly atMs: number }[] = []
  #skippedAtMs: number | undefined
  readonly #thread: BackgroundThread<ToSealer, FromSealer>
  #lastLines: string[] | undefined

  constructor(options: SealingOptions) {
    this.#options = options
    const { trail, directory, keys, origin, onFault } = options
    const job: SealJob = { file: trail.file, progress: this.#progress.buffer, directory, keys, origin }
    this.#thread = new BackgroundThread({
      script: 'seals/seal-thread',
      job,
      resourceLimits: THREAD_LIMITS,
      onNews: (news) => this.#receive(news),
      onFault,
      onStart: () => this.#started(),
      onExit: () => this.#ended(),
    })
  }

  begin(): void {
    this.#lastLines = undefined
    this.#skippedAtMs = steadyMs()
    this.#thread.start()
  }

  wrote(lines: Buffer): void {
    for (let at = 0; at < lines.length && this.#skippedAtMs === undefined; ) {
      if (this.#staged === 0) {
        this.#stagedAtMs = steadyMs()
        this.#timer ??= setTimeout(() => this.#onTime(), STAGE_MS).unref()
      }
      const count = lines.copy(this.#stage, this.#staged, at)
      at += count
      this.#staged += count
      if (this.#staged === STAGE_BYTES) this.#flush()
    }
  }

  mends(): number {
    return this.#progress.mends
  }

  moved(inode: string): void {
    if (this.#skippedAtMs !== undefined) return
    this.#flush()
    this.#thread.post({ type: 'moved', inode })
  }

  #onTime(): void {
    this.#timer = undefined
    this.#flush()
    if (this.#skippedAtMs !== undefined && this.#thread.isRunning) this.#goOn()
  }

  #flush(): void {
    if (this.#staged === 0) return
    const lines = this.#take()
    const atMs = this.#stagedAtMs
    this.#forgetTaken()
    if (this.#sentBytes - this.#progress.takenBytes > MAX_WAITING_BYTES) {
      this.#skippedAtMs = atMs
      this.#timer ??= setTimeout(() => this.#onTime(), STAGE_MS).unref()
      return
    }
    this.#sentBytes += lines.length
    this.#sent.push({ bytes: this.#sentBytes, atMs })
    this.#thread.post({ type: 'lines', lines, atMs, toMs: steadyMs() }, [lines.buffer])
  }

  /** Gives a full stage away rather than copy it. */
  #take(): Uint8Array<ArrayBuffer> {
    const stage = this.#stage
    const isFull = this.#staged === STAGE_BYTES
    const lines = new Uint8Array(isFull ? stage.buffer : stage.buffer.slice(0, this.#staged))
    if (isFull) this.#stage = Buffer.allocUnsafeSlow(STAGE_BYTES)
    this.#staged = 0
    return lines
  }

  #forgetTaken(): void {
    const { takenBytes } = this.#progress
    while ((this.#sent[0]?.bytes ?? Number.POSITIVE_INFINITY) <= takenBytes) this.#sent.shift()
  }

  #goOn(): void {
    if (this.#progress.takenBytes < this.#sentBytes) {
      this.#timer ??= setTimeout(() => this.#onTime(), STAGE_MS).unref()
      return
    }
    this.#progress.oldestAtMs = Math.min(this.#progress.oldestAtMs, this.#skippedAtMs ?? steadyMs())
    this.#skippedAtMs = undefined
    this.#thread.post({ type: 'begin', ...this.#options.trail.told })
  }

  #started(): void {
    this.#sentBytes = 0
    this.#sent = []
    this.#progress.takenBytes = 0
    this.#goOn()
  }

  async finish(): Promise<readonly string[]> {
    const { trail, finishMs = FINISH_MS, onFault } = this.#options
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#flush()
    if (this.#skippedAtMs !== undefined) this.#thread.post({ type: 'begin', ...trail.told })
    this.#skippedAtMs = steadyMs()
    const lines: string[] = []
    this.#lastLines = lines
    if (!(await this.#thread.finish('finish', finishMs)))
      onFault('the last records of the audit trail could not be sealed in time: the next start seals them')
    // The last of several seals suffices. Only the seal that covers AUDIT_STOP may follow it.
    return lines.filter(
      (line, i) => !/^AUDIT_(?:SEAL|READ_BACK)$/.test(typeOf(line)) || i === lines.length - 1,
    )
  }

  get sealedSize(): number {
    return this.#progress.sealedSize
  }

  get unsealedRecords(): number {
    return this.#progress.unsealedRecords
  }

  /** Age of the oldest unsealed record. */
  get lagMs(): number {
    this.#forgetTaken()
    const staged = this.#staged > 0 ? this.#stagedAtMs : Number.POSITIVE_INFINITY
    const skipped = this.#skippedAtMs ?? Number.POSITIVE_INFINITY
    const sent = this.#sent[0]?.atMs ?? Number.POSITIVE_INFINITY
    const nowMs = steadyMs()
    return Math.max(0, nowMs - Math.min(nowMs, this.#progress.oldestAtMs, sent, staged, skipped))
  }

  #receive(news: FromSealer): void {
    const { trail, origin, now, onSealed, onGap, onReadBack, onFault } = this.#options
    if (news.type === 'fault') {
      onFault(news.cause)
      return
    }
    if (news.type === 'AUDIT_SEAL') onSealed(news.size)
    else if (news.type === 'AUDIT_SEAL_GAP') onGap(news)
    else onReadBack(news.records)
    const line = sealRecord(new Date(now()).toISOString(), origin, news)
    if (this.#lastLines === undefined) trail.settle(line)
    else this.#lastLines.push(line)
  }

  #ended(): void {
    const { lagMs } = this
    this.#staged = 0
    if (this.#lastLines === undefined) this.#skippedAtMs = steadyMs() - lagMs
  }
}
