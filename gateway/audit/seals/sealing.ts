import { Worker } from 'node:worker_threads'
import { typeOf } from '../audit-records.ts'
import type { TrailSeals } from '../file/trail-file.ts'
import { readBackRecord, sealGapRecord, sealRecord } from '../seal-records.ts'
import { THREAD_LIMITS } from '../thread-limits.ts'
import type { Trail } from '../trail.ts'
import type { SealGap } from './find-sealed.ts'
import type { PrivateSealKeys } from './seal-key.ts'
import { SealProgress, steadyMs } from './seal-progress.ts'
import type { SealJob, SealNews } from './seal-thread.ts'
import type { TrailNews } from './sealer.ts'

interface SealingOptions {
  readonly trail: Pick<Trail, 'file' | 'settle' | 'told'>
  /** Directory of the log. */
  readonly directory: string
  readonly keys: PrivateSealKeys
  readonly origin: string
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** How long a drain or a restart waits for the last seal; default 3000. */
  readonly finishMs?: number
  /** A checkpoint over so many leaves is on the disk. */
  onSealed(size: number): void
  /** Sealed lines are no longer in the trail. */
  onGap(gap: SealGap): void
  /** Called with the number of records that were read back from the files, because nobody was left who had written them. */
  onReadBack(records: number): void
  /** Sealing has failed, and is tried again. */
  onFault(cause: string): void
}

const SCRIPT = new URL(`./seal-thread.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)
const FINISH_MS = 3000
const FIRST_RESTART_MS = 1000
const MAX_RESTART_MS = 60_000

/** Lines go to the thread when so many bytes of them are there, or after that time. */
const STAGE_BYTES = 64 * 1024
const STAGE_MS = 200
/** So much may wait for a thread that is held up by its disk. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024

/** Lines that were sent to the thread. */
interface Sent {
  /** Bytes that this thread was sent, these included. */
  readonly bytes: number
  readonly atMs: number
}

/**
 * Seals a trail in a thread of its own, which is started again when it dies. It is handed the lines as they are written.
 *
 * What waits for the thread is bounded. Beyond that nothing is handed over until it has taken everything, and it then reads the
 * lines between from the file, as the next thread does after one that died, and says so.
 */
export class Sealing implements TrailSeals {
  readonly #options: SealingOptions
  readonly #progress = new SealProgress()
  readonly #stage = Buffer.allocUnsafeSlow(STAGE_BYTES)
  #staged = 0
  /** When the first of them came. */
  #stagedAtMs = 0
  #timer: NodeJS.Timeout | undefined
  #sentBytes = 0
  #sent: Sent[] = []
  /** Nothing is handed over: since when. */
  #skippedAtMs: number | undefined
  #thread: Worker | undefined
  #restart: NodeJS.Timeout | undefined
  #restartMs = FIRST_RESTART_MS
  /** Set while it ends: lines that nobody can append any more but the caller of `finish`. */
  #lastLines: string[] | undefined

  constructor(options: SealingOptions) {
    this.#options = options
  }

  begin(): void {
    this.#lastLines = undefined
    this.#skippedAtMs = steadyMs()
    this.#start()
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
    this.#post({ type: 'moved', inode })
  }

  #onTime(): void {
    this.#timer = undefined
    this.#flush()
    if (this.#skippedAtMs !== undefined && this.#thread !== undefined) this.#goOn()
  }

  #flush(): void {
    if (this.#staged === 0) return
    const lines = new Uint8Array(this.#stage.buffer.slice(0, this.#staged))
    const atMs = this.#stagedAtMs
    this.#staged = 0
    this.#forgetTaken()
    if (this.#sentBytes - this.#progress.takenBytes > MAX_WAITING_BYTES) {
      this.#skippedAtMs = atMs
      this.#timer ??= setTimeout(() => this.#onTime(), STAGE_MS).unref()
      return
    }
    this.#sentBytes += lines.length
    this.#sent.push({ bytes: this.#sentBytes, atMs })
    this.#post({ type: 'lines', lines, atMs }, [lines.buffer])
  }

  #forgetTaken(): void {
    const { takenBytes } = this.#progress
    while ((this.#sent[0]?.bytes ?? Number.POSITIVE_INFINITY) <= takenBytes) this.#sent.shift()
  }

  /** Hands over again, once the thread has taken all. It reads what was left out. */
  #goOn(): void {
    if (this.#progress.takenBytes < this.#sentBytes) {
      this.#timer ??= setTimeout(() => this.#onTime(), STAGE_MS).unref()
      return
    }
    this.#progress.oldestAtMs = Math.min(this.#progress.oldestAtMs, this.#skippedAtMs ?? steadyMs())
    this.#skippedAtMs = undefined
    this.#post({ type: 'begin', ...this.#options.trail.told })
  }

  #post(news: TrailNews, transfer: ArrayBuffer[] = []): void {
    this.#thread?.postMessage(news, transfer)
  }

  #start(): void {
    const { trail, directory, keys, origin } = this.#options
    const job: SealJob = { file: trail.file, progress: this.#progress.buffer, directory, keys, origin }
    const thread = new Worker(SCRIPT, { workerData: job, name: 'seal', resourceLimits: THREAD_LIMITS })
    thread.unref()
    thread.on('message', (news: SealNews) => this.#receive(news))
    thread.on('error', (error: Error) =>
      this.#options.onFault(`the thread that seals has died: ${error.message}`),
    )
    thread.on('exit', () => this.#ended())
    this.#thread = thread
    this.#sentBytes = 0
    this.#sent = []
    this.#progress.takenBytes = 0
    this.#goOn()
  }

  async finish(): Promise<readonly string[]> {
    clearTimeout(this.#restart)
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#flush()
    if (this.#skippedAtMs !== undefined) this.#post({ type: 'begin', ...this.#options.trail.told })
    this.#skippedAtMs = steadyMs()
    const lines: string[] = []
    this.#lastLines = lines
    const thread = this.#thread
    if (thread === undefined) return lines
    thread.ref()
    const ended = Promise.withResolvers<void>()
    thread.once('exit', () => ended.resolve())
    thread.postMessage('finish')
    const deadline = setTimeout(() => {
      this.#options.onFault(
        'the last records of the audit trail could not be sealed in time, and are at the next start',
      )
      void thread.terminate()
    }, this.#options.finishMs ?? FINISH_MS)
    await ended.promise
    clearTimeout(deadline)
    // Of several seals, at the end of a segment and at the end of all, the last one says it all.
    // What was read back the log has said: behind AUDIT_STOP only the seal over it may stand.
    return lines.filter(
      (line, i) => !/^AUDIT_(?:SEAL|READ_BACK)$/.test(typeOf(line)) || i === lines.length - 1,
    )
  }

  /** Leaves of the tree that its checkpoint covers. */
  get sealedSize(): number {
    return this.#progress.sealedSize
  }

  /** Records that wait for the next checkpoint. */
  get unsealedRecords(): number {
    return this.#progress.unsealedRecords
  }

  /** Age of the oldest record that no checkpoint covers; what was left at the start counts from there. Below two seconds as a rule. */
  get lagMs(): number {
    this.#forgetTaken()
    const staged = this.#staged > 0 ? this.#stagedAtMs : Number.POSITIVE_INFINITY
    const skipped = this.#skippedAtMs ?? Number.POSITIVE_INFINITY
    const sent = this.#sent[0]?.atMs ?? Number.POSITIVE_INFINITY
    const nowMs = steadyMs()
    return Math.max(0, nowMs - Math.min(nowMs, this.#progress.oldestAtMs, sent, staged, skipped))
  }

  #receive(news: SealNews): void {
    const { origin, now, onSealed, onGap, onReadBack, onFault } = this.#options
    const timestamp = new Date(now()).toISOString()
    if (news.type === 'fault') {
      onFault(news.cause)
    } else if (news.type === 'gap') {
      onGap(news)
      this.#append(sealGapRecord({ timestamp, origin, size: news.size, found: news.found }))
    } else if (news.type === 'read back') {
      onReadBack(news.records)
      this.#append(readBackRecord({ timestamp, origin, records: news.records }))
    } else {
      this.#restartMs = FIRST_RESTART_MS
      onSealed(news.size)
      this.#append(sealRecord({ timestamp, origin, size: news.size, root: news.root }))
    }
  }

  #append(line: string): void {
    if (this.#lastLines === undefined) this.#options.trail.settle(line)
    else this.#lastLines.push(line)
  }

  #ended(): void {
    const lagMs = this.lagMs
    this.#thread = undefined
    this.#staged = 0
    if (this.#lastLines !== undefined) return
    this.#skippedAtMs = steadyMs() - lagMs
    this.#restart = setTimeout(() => this.#start(), this.#restartMs).unref()
    this.#restartMs = Math.min(MAX_RESTART_MS, this.#restartMs * 2)
  }
}
