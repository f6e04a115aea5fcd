import { Worker } from 'node:worker_threads'
import { THREAD_LIMITS } from '../../storage/memory/thread-limits.ts'
import { typeOf } from '../audit-records.ts'
import { sealGapRecord, sealRecord } from '../seal-records.ts'
import type { Trail } from '../trail.ts'
import type { TrailSeals } from '../trail-options.ts'
import type { SealGap } from './find-sealed.ts'
import type { PrivateSealKeys } from './seal-key.ts'
import { SealProgress, steadyMs } from './seal-progress.ts'
import type { SealJob, SealNews } from './seal-thread.ts'

export interface SealingOptions {
  readonly trail: Pick<Trail, 'handle' | 'settle'>
  /** Of the log. */
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
  /** Sealing has failed, and is tried again. */
  onFault(cause: string): void
}

const SCRIPT = new URL(`./seal-thread.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)
const FINISH_MS = 3000
const FIRST_RESTART_MS = 1000
const MAX_RESTART_MS = 60_000

/** Seals a trail in a thread of its own, which is started again when it dies. */
export class Sealing implements TrailSeals {
  readonly #options: SealingOptions
  readonly #progress = new SealProgress()
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
    this.#progress.settledAtMs = steadyMs()
    this.#start()
  }

  /** The lag goes on over threads that die. */
  #start(): void {
    const { trail, directory, keys, origin } = this.#options
    const { file, shared } = trail.handle
    const job: SealJob = { file, trail: shared, progress: this.#progress.buffer, directory, keys, origin }
    const thread = new Worker(SCRIPT, { workerData: job, name: 'seal', resourceLimits: THREAD_LIMITS })
    thread.unref()
    thread.on('message', (news: SealNews) => this.#receive(news))
    thread.on('error', (error: Error) =>
      this.#options.onFault(`the thread that seals has died: ${error.message}`),
    )
    thread.on('exit', () => this.#ended())
    this.#thread = thread
  }

  async finish(): Promise<readonly string[]> {
    clearTimeout(this.#restart)
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
    return lines.filter((line, i) => typeOf(line) !== 'AUDIT_SEAL' || i === lines.length - 1)
  }

  /** Leaves of the tree that its checkpoint covers. */
  get sealedSize(): number {
    return this.#progress.sealedSize
  }

  /** Records that wait for the next checkpoint. */
  get unsealedRecords(): number {
    return this.#progress.unsealedRecords
  }

  /**
   * Age of the oldest record that no checkpoint covers, at most; what was left at the start counts from there. Below two seconds as
   * a rule.
   */
  get lagMs(): number {
    return Math.max(0, steadyMs() - this.#progress.settledAtMs)
  }

  #receive(news: SealNews): void {
    const { origin, now, onSealed, onGap, onFault } = this.#options
    const timestamp = new Date(now()).toISOString()
    if (news.type === 'fault') {
      onFault(news.cause)
    } else if (news.type === 'gap') {
      onGap(news)
      this.#append(sealGapRecord({ timestamp, origin, size: news.size, found: news.found }))
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
    this.#thread = undefined
    if (this.#lastLines !== undefined) return
    this.#restart = setTimeout(() => this.#start(), this.#restartMs).unref()
    this.#restartMs = Math.min(MAX_RESTART_MS, this.#restartMs * 2)
  }
}
