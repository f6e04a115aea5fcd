import { SharedLock } from '../storage/shared-lock.ts'
import {
  EMPTY,
  EXCHANGES,
  FLAG_WORDS,
  HEARTBEATS,
  LAST_MS,
  LOCK,
  LOST,
  MAIN_SEAT,
  PAUSE,
  READ,
  SEATS,
  SEATS_USED,
  type SharedMemory,
  STATE,
  TAKEN,
  TUNNELS,
  UNHEALTHY,
  WRITTEN,
  wordOf,
} from './event-memory.ts'
import { type ClusterEvent, Ring } from './event-ring.ts'

export interface EventLogOptions {
  readonly memory: SharedMemory
  /** This thread's. */
  readonly seat: number
  /** Epoch milliseconds with fractions; on all threads nearly the same. */
  readonly clock: () => number
  /** Called when this thread has missed events or could not apply one; it must stop. */
  readonly onLost: (why: Error) => void
  /** How long a publisher waits for threads that do not read, milliseconds. */
  readonly maxWaitMs?: number
}

/** Counts that each thread publishes, by the word of its seat. */
const COUNTED = { exchanges: EXCHANGES, tunnels: TUNNELS } as const

const MAX_WAIT_MS = 2_000
/** How often the main thread retries the lock. */
const RETRY_MS = 1

/**
 * Replicates the shared state over all threads (state machine replication). Each thread has a full copy. A step applies the
 * events of the other threads, decides by the copy, and publishes what it did. All copies apply the same events in the
 * same order with the same times, so they stay equal.
 *
 * A thread that does not read for long while the ring is full is marked LOST, and stops when it next reads. The main thread
 * is never marked: its copy is the source for new threads.
 */
export class EventLog {
  readonly #options: EventLogOptions
  readonly #words: Int32Array
  readonly #lastMs: Float64Array
  readonly #lock: SharedLock
  readonly #ring: Ring
  readonly #ringBytes: number
  readonly #handlers = new Map<number, (event: ClusterEvent) => void>()
  /** Position of the next event to read. */
  #read: number
  /** Every thread has read at least to this position. */
  #readByAll: number
  #nowMs = 0
  #stepping = false
  readonly #waiting: (() => void)[] = []

  constructor(options: EventLogOptions) {
    const { memory, seat } = options
    this.#options = options
    this.#words = new Int32Array(memory.control)
    this.#lastMs = new Float64Array(memory.control, LAST_MS * 4, 1)
    this.#lock = new SharedLock(this.#words, LOCK, seat)
    this.#ring = new Ring(memory.ring)
    this.#ringBytes = memory.ring.byteLength
    if (seat === MAIN_SEAT) {
      Atomics.store(this.#words, wordOf(seat, STATE), TAKEN)
      Atomics.store(this.#words, SEATS_USED, MAIN_SEAT + 1)
    }
    this.#read = Atomics.load(this.#words, wordOf(seat, READ)) >>> 0
    this.#readByAll = this.#read
  }

  /**
   * Epoch milliseconds of the current step, never before those of an earlier step on any thread. Outside a step, the time of
   * the clock.
   */
  get nowMs(): number {
    return this.#stepping ? this.#nowMs : this.#options.clock()
  }

  /** Characters of event text that always fit; longer text may be rejected. */
  get longestText(): number {
    return this.#ringBytes / 4 - 64
  }

  /** Sets the handler that applies events of that kind from other threads. */
  on(kind: number, handler: (event: ClusterEvent) => void): void {
    this.#handlers.set(kind, handler)
  }

  /** Applies the events of the other threads. Costs next to nothing when there are none. Not within a step. */
  catchUp(): void {
    if (Atomics.load(this.#words, WRITTEN) >>> 0 !== this.#read) this.#applyNew()
  }

  /**
   * Begins a step: waits until no other thread is in one, and applies the events of the others. Must be followed by
   * `leave`, also after an exception.
   */
  enter(): void {
    if (!this.#lock.tryAcquire()) this.#lock.acquire(Number.POSITIVE_INFINITY, () => this.catchUp())
    this.#begin()
  }

  leave(): void {
    this.#stepping = false
    this.#lock.release()
  }

  /** Publishes what was done in the current step. @throws RangeError when the text is too long */
  publish(event: ClusterEvent): void {
    const written = Atomics.load(this.#words, WRITTEN) >>> 0
    const bytes = this.#ring.bytesFor(event.text, written)
    // With half of the ring, an event and what it skips always fit into it together.
    if (bytes > this.#ringBytes / 2) this.#ring.checkSize(event.text, this.#ringBytes / 2)
    if (this.#ringBytes - ((written - this.#readByAll) >>> 0) < bytes) this.#makeRoom(written, bytes)
    const next = this.#ring.write(event, written)
    Atomics.store(this.#words, WRITTEN, next | 0)
    this.#advance(next)
  }

  /**
   * Runs a step of the main thread without blocking, since only the main thread can release the lock of a dead worker: at
   * once when the lock is free, as it nearly always is, else soon. Steps run in the order of the calls.
   */
  whenFree(step: () => void): void {
    if (this.#waiting.length === 0 && this.#tryStep(step)) return
    this.#waiting.push(step)
    if (this.#waiting.length === 1) this.#retry()
  }

  #retry(): void {
    setTimeout(() => {
      while (this.#waiting[0] !== undefined && this.#tryStep(this.#waiting[0])) this.#waiting.shift()
      if (this.#waiting.length > 0) this.#retry()
    }, RETRY_MS)
  }

  #tryStep(step: () => void): boolean {
    if (!this.#lock.acquireSoon()) return false
    this.#begin()
    try {
      step()
    } finally {
      this.leave()
    }
    return true
  }

  #begin(): void {
    try {
      this.catchUp()
    } catch (error) {
      this.leave()
      throw error
    }
    const lastMs = this.#lastMs[0] as number
    this.#nowMs = Math.max(this.#options.clock(), lastMs)
    this.#lastMs[0] = this.#nowMs
    this.#stepping = true
  }

  #applyNew(): void {
    const written = Atomics.load(this.#words, WRITTEN) >>> 0
    let at = this.#read
    try {
      while (at !== written) {
        const event = this.#ring.read(at)
        const next = this.#ring.after(at)
        // After the read: while the seat is taken, nobody overwrites unread events.
        this.#assertTaken()
        if (event !== undefined) this.#handlers.get(event.kind)?.(event)
        at = next
      }
    } catch (error) {
      // The state is inconsistent: the event may be half applied, and cannot be applied again.
      this.#options.onLost(error as Error)
      throw error
    }
    this.#advance(written)
  }

  #assertTaken(): void {
    if (Atomics.load(this.#words, wordOf(this.#options.seat, STATE)) === TAKEN) return
    throw new Error('this thread has not read for too long')
  }

  #advance(position: number): void {
    this.#read = position
    Atomics.store(this.#words, wordOf(this.#options.seat, READ), position | 0)
  }

  #makeRoom(written: number, bytes: number): void {
    const deadline = performance.now() + (this.#options.maxWaitMs ?? MAX_WAIT_MS)
    for (;;) {
      this.#readByAll = (written - this.#longestLag(written, bytes, performance.now() >= deadline)) >>> 0
      if (this.#ringBytes - ((written - this.#readByAll) >>> 0) >= bytes) return
      // Never notified: this only pauses, and keeps the step.
      Atomics.wait(this.#words, PAUSE, 0, 1)
    }
  }

  /** Bytes that the slowest thread has yet to read. Once `isOverdue`, threads that block the publisher are marked LOST. */
  #longestLag(written: number, bytes: number, isOverdue: boolean): number {
    let longest = 0
    for (let seat = 0; seat < SEATS; seat++) {
      const state = wordOf(seat, STATE)
      if (seat === this.#options.seat || Atomics.load(this.#words, state) !== TAKEN) continue
      const lag = (written - (Atomics.load(this.#words, wordOf(seat, READ)) >>> 0)) >>> 0
      if (isOverdue && seat !== MAIN_SEAT && this.#ringBytes - lag < bytes) {
        Atomics.store(this.#words, state, LOST)
      } else longest = Math.max(longest, lag)
    }
    return longest
  }

  /**
   * Main thread only: takes a seat for a new thread, which will read all events from here on. The state must be copied for
   * it in the same turn of the event loop.
   *
   * @returns undefined when all seats are taken
   */
  takeSeat(): number | undefined {
    for (let seat = MAIN_SEAT + 1; seat < SEATS; seat++) {
      if (Atomics.load(this.#words, wordOf(seat, STATE)) !== EMPTY) continue
      Atomics.store(this.#words, wordOf(seat, READ), this.#read | 0)
      Atomics.store(this.#words, wordOf(seat, HEARTBEATS), 0)
      Atomics.store(this.#words, wordOf(seat, UNHEALTHY), 0)
      Atomics.store(this.#words, wordOf(seat, STATE), TAKEN)
      Atomics.store(this.#words, SEATS_USED, Math.max(seat + 1, Atomics.load(this.#words, SEATS_USED)))
      return seat
    }
    return undefined
  }

  /** Main thread only: releases the seat and the lock of a thread that has ended. */
  freeSeat(seat: number): void {
    if (this.#lock.takeFrom(seat)) this.#lock.release()
    Atomics.store(this.#words, wordOf(seat, UNHEALTHY), 0)
    Atomics.store(this.#words, wordOf(seat, EXCHANGES), 0)
    Atomics.store(this.#words, wordOf(seat, TUNNELS), 0)
    Atomics.store(this.#words, wordOf(seat, STATE), EMPTY)
  }

  /** Heartbeat of this thread. @param healthy whether it can serve */
  heartbeat(healthy: boolean): void {
    const { seat } = this.#options
    Atomics.store(this.#words, wordOf(seat, UNHEALTHY), healthy ? 0 : 1)
    Atomics.add(this.#words, wordOf(seat, HEARTBEATS), 1)
  }

  /** Publishes a count of this thread. */
  publishCount(what: keyof typeof COUNTED, count: number): void {
    Atomics.store(this.#words, wordOf(this.#options.seat, COUNTED[what]), count)
  }

  /** The sum of that count over all other threads. */
  countOnOthers(what: keyof typeof COUNTED): number {
    let count = 0
    const used = Atomics.load(this.#words, SEATS_USED)
    for (let seat = 0; seat < used; seat++) {
      if (seat !== this.#options.seat) count += Atomics.load(this.#words, wordOf(seat, COUNTED[what]))
    }
    return count
  }

  /** True unless a thread reports unhealthy. */
  get allHealthy(): boolean {
    for (let seat = 0; seat < SEATS; seat++) {
      if (Atomics.load(this.#words, wordOf(seat, UNHEALTHY)) !== 0) return false
    }
    return true
  }

  /** Number of heartbeats from the thread of that seat. */
  heartbeatsOf(seat: number): number {
    return Atomics.load(this.#words, wordOf(seat, HEARTBEATS))
  }

  /** A flag (0 to 14) shared by all threads. Read and write it within a step; the main thread also while it applies events. */
  flag(index: number): { raised: boolean } {
    const words = this.#words
    const at = FLAG_WORDS + index
    return {
      get raised() {
        return words[at] === 1
      },
      set raised(raised: boolean) {
        words[at] = raised ? 1 : 0
      },
    }
  }
}
