import type { ClusterEvent, Sharing } from './event.ts'
import { SharedLock } from './event-lock.ts'
import {
  BEAT,
  EMPTY,
  EXCHANGES,
  LAST_MS,
  LOCK,
  LOST,
  MAIN_SEAT,
  MARKS,
  READ,
  REST,
  SEATS,
  SEATS_USED,
  type SharedMemory,
  STATE,
  TAKEN,
  TUNNELS,
  UNFIT,
  WRITTEN,
  wordOf,
} from './event-memory.ts'
import { Ring } from './event-ring.ts'

export interface EventLogOptions {
  readonly memory: SharedMemory
  /** This thread's. */
  readonly seat: number
  /** Epoch milliseconds with fractions; on all threads nearly the same. */
  readonly clock: () => number
  /** This thread can no longer know what the others have done, and must not go on. */
  readonly onLost: (why: Error) => void
  /** How long who has something to tell waits for threads that do not listen, milliseconds. */
  readonly patienceMs?: number
}

/** What each thread has of it is known to all, by the word of its seat. */
const COUNTED = { exchanges: EXCHANGES, tunnels: TUNNELS } as const

/** Does what another thread has done. */
export type EventHandler = (event: ClusterEvent) => void

const PATIENCE_MS = 2_000
/** How long the main thread leaves the lock to others before it asks again. */
const ASK_AGAIN_MS = 1

/**
 * One order of events over all threads. Each thread keeps a whole copy of what is shared, decides by it within a step, and
 * tells the others what it did; a step begins with doing what they did. As all copies do the same in the same order and
 * as of the same times, they are one.
 *
 * A thread that does not listen for long while the ring is full is left behind: it finds itself lost when it next looks.
 * The main thread is never left behind: from its copy new ones are made.
 */
export class EventLog implements Sharing {
  readonly #options: EventLogOptions
  readonly #words: Int32Array
  readonly #lastMs: Float64Array
  readonly #lock: SharedLock
  readonly #ring: Ring
  readonly #ringBytes: number
  readonly #handlers = new Map<number, EventHandler>()
  /** Where this thread reads on. */
  #read: number
  /** Everybody has read until here, or further. */
  #readByAll: number
  #nowMs = 0
  #stepping = false
  readonly #waiting: (() => void)[] = []

  constructor(options: EventLogOptions) {
    const { memory, seat } = options
    this.#options = options
    this.#words = new Int32Array(memory.control)
    this.#lastMs = new Float64Array(memory.control, LAST_MS * 4, 1)
    this.#lock = new SharedLock({ words: this.#words, at: LOCK, seat })
    this.#ring = new Ring(memory.ring)
    this.#ringBytes = memory.ring.byteLength
    if (seat === MAIN_SEAT) {
      Atomics.store(this.#words, wordOf(seat, STATE), TAKEN)
      Atomics.store(this.#words, SEATS_USED, MAIN_SEAT + 1)
    }
    this.#read = Atomics.load(this.#words, wordOf(seat, READ)) >>> 0
    this.#readByAll = this.#read
  }

  get nowMs(): number {
    return this.#stepping ? this.#nowMs : this.#options.clock()
  }

  /** Characters that any event's text may have; a longer one may be refused. */
  get longestText(): number {
    return this.#ringBytes / 4 - 64
  }

  /** What this thread does when another has told an event of that kind. */
  on(kind: number, handler: EventHandler): void {
    this.#handlers.set(kind, handler)
  }

  catchUp(): void {
    if (Atomics.load(this.#words, WRITTEN) >>> 0 !== this.#read) this.#applyNew()
  }

  enter(): void {
    if (!this.#lock.tryAcquire()) this.#lock.acquire(() => this.catchUp())
    this.#begin()
  }

  leave(): void {
    this.#stepping = false
    this.#lock.release()
  }

  publish(event: ClusterEvent): void {
    const written = Atomics.load(this.#words, WRITTEN) >>> 0
    const bytes = this.#ring.bytesFor(event.text, written)
    if (bytes > this.#ringBytes / 2) throw new RangeError(`an event of ${bytes} bytes is too long to be told`)
    if (this.#ringBytes - ((written - this.#readByAll) >>> 0) < bytes) this.#makeRoom(written, bytes)
    const next = this.#ring.write(event, written)
    Atomics.store(this.#words, WRITTEN, next | 0)
    this.#advance(next)
  }

  /**
   * A step of the main thread, which must not wait, because it is the one that clears away behind dead ones: now when the lock is
   * free, which is as good as always, else in a moment; in the order of the calls.
   */
  whenFree(step: () => void): void {
    if (this.#waiting.length === 0 && this.#tryStep(step)) return
    this.#waiting.push(step)
    if (this.#waiting.length === 1) this.#askAgain()
  }

  #askAgain(): void {
    setTimeout(() => {
      while (this.#waiting[0] !== undefined && this.#tryStep(this.#waiting[0])) this.#waiting.shift()
      if (this.#waiting.length > 0) this.#askAgain()
    }, ASK_AGAIN_MS)
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
        // After reading: as long as the seat is taken, nobody writes over what it has not read.
        this.#assertTaken()
        if (event !== undefined) this.#handlers.get(event.kind)?.(event)
        at = next
      }
    } catch (error) {
      // Half done cannot be mended, and doing it once more would do the half twice.
      this.#options.onLost(error as Error)
      throw error
    }
    this.#advance(written)
  }

  #assertTaken(): void {
    if (Atomics.load(this.#words, wordOf(this.#options.seat, STATE)) === TAKEN) return
    throw new Error('this thread was left behind by the others')
  }

  #advance(position: number): void {
    this.#read = position
    Atomics.store(this.#words, wordOf(this.#options.seat, READ), position | 0)
  }

  #makeRoom(written: number, bytes: number): void {
    const deadline = performance.now() + (this.#options.patienceMs ?? PATIENCE_MS)
    for (;;) {
      this.#readByAll = (written - this.#farthestBehind(written, bytes, performance.now() >= deadline)) >>> 0
      if (this.#ringBytes - ((written - this.#readByAll) >>> 0) >= bytes) return
      // Never notified: waiting is the only way to rest without giving the step away.
      Atomics.wait(this.#words, REST, 0, 1)
    }
  }

  /** How many bytes the slowest thread has yet to read. Those that are in the way are left behind when patience is out. */
  #farthestBehind(written: number, bytes: number, impatient: boolean): number {
    let farthest = 0
    for (let seat = 0; seat < SEATS; seat++) {
      const state = wordOf(seat, STATE)
      if (seat === this.#options.seat || Atomics.load(this.#words, state) !== TAKEN) continue
      const behind = (written - (Atomics.load(this.#words, wordOf(seat, READ)) >>> 0)) >>> 0
      if (impatient && seat !== MAIN_SEAT && this.#ringBytes - behind < bytes) {
        Atomics.store(this.#words, state, LOST)
      } else farthest = Math.max(farthest, behind)
    }
    return farthest
  }

  /**
   * Of the main thread: a seat for a thread to come, which will hear everything from here on. What is copied for it before
   * the next turn of the loop is as of exactly here.
   *
   * @returns undefined when all are taken
   */
  seatNext(): number | undefined {
    for (let seat = MAIN_SEAT + 1; seat < SEATS; seat++) {
      if (Atomics.load(this.#words, wordOf(seat, STATE)) !== EMPTY) continue
      Atomics.store(this.#words, wordOf(seat, READ), this.#read | 0)
      Atomics.store(this.#words, wordOf(seat, BEAT), 0)
      Atomics.store(this.#words, wordOf(seat, UNFIT), 0)
      Atomics.store(this.#words, wordOf(seat, STATE), TAKEN)
      Atomics.store(this.#words, SEATS_USED, Math.max(seat + 1, Atomics.load(this.#words, SEATS_USED)))
      return seat
    }
    return undefined
  }

  /** Of the main thread: the thread of that seat no longer runs. */
  vacate(seat: number): void {
    this.#lock.releaseFor(seat)
    Atomics.store(this.#words, wordOf(seat, UNFIT), 0)
    Atomics.store(this.#words, wordOf(seat, EXCHANGES), 0)
    Atomics.store(this.#words, wordOf(seat, TUNNELS), 0)
    Atomics.store(this.#words, wordOf(seat, STATE), EMPTY)
  }

  /** Says that this thread is alive, and whether it can do what it is there for. */
  beat(fit: boolean): void {
    const { seat } = this.#options
    Atomics.store(this.#words, wordOf(seat, UNFIT), fit ? 0 : 1)
    Atomics.add(this.#words, wordOf(seat, BEAT), 1)
  }

  /** Says how many this thread has. */
  publishCount(what: keyof typeof COUNTED, count: number): void {
    Atomics.store(this.#words, wordOf(this.#options.seat, COUNTED[what]), count)
  }

  /** How many all other threads have. */
  countElsewhere(what: keyof typeof COUNTED): number {
    let count = 0
    const used = Atomics.load(this.#words, SEATS_USED)
    for (let seat = 0; seat < used; seat++) {
      if (seat !== this.#options.seat) count += Atomics.load(this.#words, wordOf(seat, COUNTED[what]))
    }
    return count
  }

  /** Whether no thread has said that it is not. */
  get allFit(): boolean {
    for (let seat = 0; seat < SEATS; seat++) {
      if (Atomics.load(this.#words, wordOf(seat, UNFIT)) !== 0) return false
    }
    return true
  }

  /** How often the thread of that seat has said that it is alive. */
  beatsOf(seat: number): number {
    return Atomics.load(this.#words, wordOf(seat, BEAT))
  }

  /** A flag that all threads see; they are numbered from 0 to 14. Looked at and set within a step. */
  mark(index: number): { raised: boolean } {
    const words = this.#words
    const at = MARKS + index
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
