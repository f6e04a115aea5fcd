import { ErrorReply } from '@redis/client'
import { after } from '../edge/syntax/deadlines.ts'
import { messageOf } from '../terminal/printable.ts'
import type { StoreConnection } from './connection/store-connection.ts'
import type { StoreReply } from './connection/store-link.ts'
import { countRoundTrip, type StoreCounts } from './store-counts.ts'

export interface StoreTimers {
  /** Milliseconds that never go back. */
  nowMs(): number
  /** @returns a function that cancels the timer */
  after(ms: number, run: () => void): () => void
  /** Calls `run` once everything that has arrived by now has been read. */
  soon(run: () => void): void
  random(): number
}

export const REAL_TIMERS: StoreTimers = {
  nowMs: () => performance.now(),
  after,
  soon: (run) => void setImmediate(run),
  random: () => Math.random(),
}

export interface StoreCall {
  readonly args: readonly string[]
  /** A cluster finds the server by this key. */
  readonly key: string
  /** If it returns false, the store counts as away. Default: true. */
  fits?(reply: StoreReply): boolean
  /** Called once. Must not throw. @param reply undefined when the store is away; it may have carried the command out */
  done(reply: StoreReply | undefined): void
  /** The text of the script that `args` run by EVALSHA. A server that lacks it gets it once, by EVAL. */
  readonly script?: string
}

export interface BreakerObserver {
  onAway(cause: string): void
  onBack(awayMs: number): void
}

interface StoreBreakerOptions {
  readonly connection: Pick<StoreConnection, 'send' | 'reset' | 'onReady'>
  readonly counts: StoreCounts
  readonly timers: StoreTimers
  readonly observer: BreakerObserver
  /** Key of the first probe. Later probes use the key of the failed command. */
  readonly probeKey: string
  /** False when commands cannot be sent though the store responds. Default: true. */
  readonly isUsable?: () => boolean
  readonly deadlineMs?: number
}

interface Pending {
  readonly call: StoreCall
  readonly sentAtMs: number
  /** True once the deadline was extended, because our own event loop was late. */
  excused: boolean
}

const DEFAULT_DEADLINE_MS = 25
/** A timer that is later than this shows that our own event loop was busy. */
const LATE_MS = 3
const FIRST_PROBE_MS = 100
const MAX_PROBE_MS = 1000
/** A new outage within this time keeps the interval of probes. */
const SETTLED_MS = 10_000
/** A connection whose probe has no reply for this long is closed. */
const GIVE_UP_MS = 500

/**
 * Opens when a command fails or has no reply within the deadline. While it is open, the store is away for all callers.
 * Begins open. A probe with a reply in time closes it. One timer serves all commands.
 */
export class StoreBreaker {
  readonly #options: StoreBreakerOptions
  #deadlineMs: number
  readonly #pending = new Set<Pending>()
  #isOpen = true
  #wasReached = false
  #changedAtMs: number
  #probeKey: string
  #probeEveryMs = FIRST_PROBE_MS
  #probeInFlight = false
  #deadlineArmed = false
  #cancelProbe: () => void = () => undefined
  #cancelDeadline: () => void = () => undefined
  #isClosed = false

  constructor(options: StoreBreakerOptions) {
    this.#options = options
    this.#deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS
    this.#changedAtMs = options.timers.nowMs()
    this.#probeKey = options.probeKey
    options.connection.onReady(() => {
      if (this.#isOpen && !this.#probeInFlight) this.#probeAfter(this.#wasReached ? FIRST_PROBE_MS : 0)
    })
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  get wasReached(): boolean {
    return this.#wasReached
  }

  get pending(): number {
    return this.#pending.size
  }

  /** Calls `done` at once when the store is known to be away. */
  send(call: StoreCall): void {
    if (this.#isOpen) {
      call.done(undefined)
      return
    }
    const { connection, timers } = this.#options
    const pending: Pending = { call, sentAtMs: timers.nowMs(), excused: false }
    this.#pending.add(pending)
    if (!this.#deadlineArmed) this.#armDeadline(this.#deadlineMs)
    connection.send(call.args, call.key).then(
      (reply) => this.#replied(pending, reply),
      (error: unknown) => this.#failed(pending, error),
    )
  }

  /** Commands under way may keep the old deadline. */
  changeDeadline(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs
  }

  close(): void {
    this.#isClosed = true
    this.#cancelProbe()
    this.#cancelDeadline()
    this.#isOpen = true
    this.#abandon()
  }

  #replied(pending: Pending, reply: StoreReply): void {
    // The caller has been told that the store is away.
    if (!this.#pending.has(pending)) return
    if (pending.call.fits?.(reply) === false) {
      this.#open(pending.call.key, 'an unexpected reply')
      return
    }
    this.#pending.delete(pending)
    countRoundTrip(this.#options.counts, this.#options.timers.nowMs() - pending.sentAtMs)
    pending.call.done(reply)
  }

  #failed(pending: Pending, error: unknown): void {
    if (!this.#pending.has(pending)) return
    const { call } = pending
    const { key, script } = call
    if (script !== undefined && isReply(error, 'NOSCRIPT')) {
      this.#pending.delete(pending)
      this.#options.counts.scriptReloads++
      this.send({
        args: ['EVAL', script, ...call.args.slice(2)],
        key,
        fits: (reply) => call.fits?.(reply) !== false,
        done: (reply) => call.done(reply),
      })
      return
    }
    this.#open(key, messageOf(error))
  }

  #armDeadline(ms: number): void {
    const { timers } = this.#options
    const dueMs = timers.nowMs() + ms
    this.#deadlineArmed = true
    this.#cancelDeadline = timers.after(ms, () => this.#checkDeadline(dueMs))
  }

  #checkDeadline(dueMs: number): void {
    this.#deadlineArmed = false
    const [oldest] = this.#pending
    if (oldest === undefined) return
    const nowMs = this.#options.timers.nowMs()
    const leftMs = this.#deadlineMs - (nowMs - oldest.sentAtMs)
    if (leftMs > 0 && !oldest.excused) {
      this.#armDeadline(leftMs)
    } else if (nowMs - dueMs > LATE_MS && !oldest.excused) {
      // The command may not even have been written.
      oldest.excused = true
      this.#armDeadline(this.#deadlineMs)
    } else {
      this.#deadlineArmed = true
      // The reply may have arrived unread.
      this.#options.timers.soon(() => this.#decide(oldest))
    }
  }

  #decide(overdue: Pending): void {
    this.#deadlineArmed = false
    if (this.#isOpen) return
    if (this.#pending.has(overdue)) {
      this.#open(overdue.call.key, `no reply within ${this.#deadlineMs} ms`)
      return
    }
    const [oldest] = this.#pending
    if (oldest === undefined) return
    this.#armDeadline(Math.max(1, this.#deadlineMs - (this.#options.timers.nowMs() - oldest.sentAtMs)))
  }

  #open(key: string, cause: string): void {
    const nowMs = this.#options.timers.nowMs()
    if (nowMs - this.#changedAtMs > SETTLED_MS) this.#probeEveryMs = FIRST_PROBE_MS
    this.#isOpen = true
    this.#changedAtMs = nowMs
    this.#probeKey = key
    this.#options.counts.outages++
    this.#probeAfter(this.#probeEveryMs)
    this.#options.observer.onAway(cause)
    this.#abandon()
  }

  #abandon(): void {
    const abandoned = [...this.#pending]
    this.#pending.clear()
    for (const { call } of abandoned) call.done(undefined)
  }

  #probeAfter(ms: number): void {
    const { timers } = this.#options
    this.#cancelProbe()
    if (this.#isClosed) return
    this.#cancelProbe = timers.after(ms * (0.5 + timers.random() / 2), () => this.#probe())
  }

  /** Writes, because a full server or a replica still replies to reads. */
  #probe(): void {
    const { connection, timers, isUsable } = this.#options
    const sentAtMs = timers.nowMs()
    let given = false
    this.#probeInFlight = true
    const over = (inTime: boolean) => {
      if (given || this.#isClosed) return
      given = true
      this.#probeInFlight = false
      this.#cancelProbe()
      if (inTime) return this.#back()
      this.#probeEveryMs = Math.min(MAX_PROBE_MS, this.#probeEveryMs * 2)
      this.#probeAfter(this.#probeEveryMs)
    }
    this.#cancelProbe = timers.after(GIVE_UP_MS, () => {
      connection.reset('it did not carry out a probe')
      over(false)
    })
    // With this key, a cluster sends the probe to the server that failed.
    const key = `${this.#probeKey}:probe`
    connection.send(['SET', key, '1', 'PX', '1000'], key).then(
      (reply) =>
        over(reply === 'OK' && timers.nowMs() - sentAtMs <= this.#deadlineMs && isUsable?.() !== false),
      // After a replica's refusal, waits for the reset above, because a new connection may lead to the master.
      (error: unknown) => isReply(error, 'READONLY') || over(false),
    )
  }

  #back(): void {
    const nowMs = this.#options.timers.nowMs()
    const awayMs = nowMs - this.#changedAtMs
    const isFirst = !this.#wasReached
    this.#isOpen = false
    this.#wasReached = true
    this.#changedAtMs = nowMs
    if (!isFirst) this.#options.observer.onBack(awayMs)
  }
}

export function isReply(error: unknown, code: string): boolean {
  return error instanceof ErrorReply && error.message.startsWith(code)
}
