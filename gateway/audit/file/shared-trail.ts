import { threadId } from 'node:worker_threads'

/** What another thread needs to write the same trail; can be posted to it. */
export interface TrailHandle {
  readonly file: string
  readonly shared: SharedArrayBuffer
}

/** Places of the 32-bit words. */
const LOCK = 0
const WAITERS = 1
const TURN = 2
const FD = 3
const GENERATION = 4
const OPEN = 5
const INTENDED_OPEN = 6
const INTENDED_BYTES = 7
const TORN_BY = 8
const DISTRUSTED = 9
const SEATS = 10
const SEAT_BYTES = 11
/** Places of the 64-bit floats behind them. */
const END = 8
const TURN_END = 9
const TURN_OPEN = 10
const HEAD_BYTES = 128
/** Instead of the end of a file. */
const UNMARKED = -1

/** How often the lock is tried before the thread sleeps: a write takes about 3 µs. */
const SPINS = 200
const SLEEP_MS = 2

/** A state of the file that can be gone back to: its end in bytes, and the requests open in it. */
export interface FileEnd {
  readonly end: number
  readonly open: number
}

/** A point that a turn goes back to. */
export interface TurnStart extends FileEnd {
  /** Before the end, of a line of this thread that is not whole. */
  readonly tornBytes: number
}

/** How a failed write is left. */
export interface FailedWrite {
  /** That could not be cut off. */
  readonly addedBytes: number
  /** Of a line that is not whole, together with those that stood there before. */
  readonly tornBytes: number
  /** By the lines that are whole. */
  readonly openChange: number
}

/**
 * What all threads that write one trail have in common, in shared memory: a lock held around each write and what is cut
 * off after it, the file, the number of open requests, and, for `synced`, whose turn it is to commit.
 *
 * A thread can be ended between any two steps. So what a write is going to change is put down before it, and the lock
 * says who holds it: whoever takes the lock over from the dead can tell by the size of the file how far it got.
 */
export class SharedTrail {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array
  readonly #floats: Float64Array
  /** This thread, as it stands in the words; 0 is nobody. */
  readonly #me = threadId + 1
  #depth = 0

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer, 0, HEAD_BYTES / 4)
    this.#floats = new Float64Array(buffer, 0, HEAD_BYTES / 8)
  }

  /** @param seats threads that can join; @param seatBytes what each keeps for the supervisor to read when it has died. */
  static create({ seats, seatBytes }: { readonly seats: number; readonly seatBytes: number }): SharedTrail {
    const state = new SharedTrail(new SharedArrayBuffer(HEAD_BYTES + seats * seatBytes))
    state.#words[SEATS] = seats
    state.#floats[TURN_END] = UNMARKED
    state.#words[SEAT_BYTES] = seatBytes
    return state
  }

  /** Enters the lock; may be nested. @returns false when somebody else has held it all the time. */
  enter(patienceMs: number): boolean {
    if (this.#depth === 0 && !this.#take(patienceMs)) return false
    this.#depth++
    return true
  }

  leave(): void {
    if (--this.#depth > 0) return
    Atomics.store(this.#words, LOCK, 0)
    if (Atomics.load(this.#words, WAITERS) > 0) Atomics.notify(this.#words, LOCK, 1)
  }

  #take(patienceMs: number): boolean {
    const words = this.#words
    for (let i = 0; i < SPINS; i++) {
      if (Atomics.compareExchange(words, LOCK, 0, this.#me) === 0) return true
    }
    const deadline = performance.now() + patienceMs
    Atomics.add(words, WAITERS, 1)
    try {
      for (;;) {
        const holder = Atomics.compareExchange(words, LOCK, 0, this.#me)
        if (holder === 0) return true
        if (performance.now() >= deadline) return false
        Atomics.wait(words, LOCK, holder, SLEEP_MS)
      }
    } finally {
      Atomics.sub(words, WAITERS, 1)
    }
  }

  /** Which thread holds the lock. For messages. */
  get holder(): number {
    return Atomics.load(this.#words, LOCK) - 1
  }

  /** Takes the turn to write and commit, if it is free. It may be kept over turns of the event loop. */
  takeTurn(): boolean {
    return Atomics.compareExchange(this.#words, TURN, 0, this.#me) === 0
  }

  passTurn(): void {
    this.#passTurn(this.#me)
  }

  /** The mark goes first: whoever dies with the turn before it has marked it has nothing to go back to. */
  #passTurn(owner: number): void {
    if (Atomics.load(this.#words, TURN) !== owner) return
    this.#floats[TURN_END] = UNMARKED
    Atomics.store(this.#words, TURN, 0)
    Atomics.notify(this.#words, TURN)
  }

  /** Resolves when the turn may be free, which is not to say that it will be had. */
  async turnFreed(): Promise<void> {
    const holder = Atomics.load(this.#words, TURN)
    const waiting = Atomics.waitAsync(this.#words, TURN, holder === 0 ? -1 : holder, 20)
    if (!waiting.async) return
    // Waiting alone does not keep the event loop going.
    const alive = setTimeout(() => {}, 1000)
    await waiting.value
    clearTimeout(alive)
  }

  get fd(): number {
    return this.#words[FD] as number
  }

  /** Goes up with each file. */
  get generation(): number {
    return Atomics.load(this.#words, GENERATION)
  }

  /** Under the lock: the file that is written from now on. */
  setFile(fd: number, sizeBytes: number): void {
    this.#words[FD] = fd
    this.#words[TORN_BY] = 0
    this.#words[DISTRUSTED] = 0
    this.#floats[END] = sizeBytes
    Atomics.add(this.#words, GENERATION, 1)
  }

  /** Requests in the trail whose response is not. */
  get open(): number {
    return this.#words[OPEN] as number
  }

  set open(count: number) {
    this.#words[OPEN] = count
  }

  /** Another thread has left a part of a line, whose rest comes before anything else. */
  get tornByAnother(): boolean {
    const torn = this.#words[TORN_BY]
    return torn !== 0 && torn !== this.#me
  }

  /** The disk has refused to commit, and what it holds could not be cut off: nothing more goes into this file. */
  get distrusted(): boolean {
    return Atomics.load(this.#words, DISTRUSTED) !== 0
  }

  distrust(): void {
    Atomics.store(this.#words, DISTRUSTED, 1)
  }

  /** Under the lock, before a write. */
  intend(bytes: number, openChange: number): void {
    this.#words[INTENDED_OPEN] = this.open + openChange
    this.#words[INTENDED_BYTES] = bytes
  }

  /** Under the lock, after a write. The order is what `takeOver` reads. */
  wrote(): void {
    const bytes = this.#words[INTENDED_BYTES] as number
    this.#words[OPEN] = this.#words[INTENDED_OPEN] as number
    this.#floats[END] = (this.#floats[END] as number) + bytes
    this.#words[INTENDED_BYTES] = 0
    this.#words[TORN_BY] = 0
  }

  /** Under the lock, after a write that failed. */
  failed({ addedBytes, tornBytes, openChange }: FailedWrite): void {
    this.open += openChange
    this.#floats[END] = (this.#floats[END] as number) + addedBytes
    this.#words[INTENDED_BYTES] = 0
    this.#words[TORN_BY] = tornBytes > 0 ? this.#me : 0
  }

  /** Under the lock. */
  here(): FileEnd {
    return { end: this.#floats[END] as number, open: this.open }
  }

  /** Under the lock: what was written since then is no longer in the file. */
  rollBackTo({ end, open, tornBytes }: TurnStart): void {
    this.#floats[END] = end
    this.#words[OPEN] = open
    this.#words[TORN_BY] = tornBytes > 0 ? this.#me : 0
  }

  /** Under the lock, with the turn: what the file comes back to if this thread dies before it has committed. */
  startTurn(): FileEnd {
    const here = this.here()
    this.#floats[TURN_OPEN] = here.open
    this.#floats[TURN_END] = here.end
    return here
  }

  /** Where the turn began that the thread died with, if it had begun to write. */
  turnOf(thread: number): FileEnd | undefined {
    const end = this.#floats[TURN_END] as number
    if (Atomics.load(this.#words, TURN) !== thread + 1 || end === UNMARKED) return undefined
    return { end, open: this.#floats[TURN_OPEN] as number }
  }

  passTurnOf(thread: number): void {
    this.#passTurn(thread + 1)
  }

  /**
   * Takes the lock over from a thread that is no more, if it held it. `tornBytes`: what it left of a line, to be cut off
   * or ended by the caller, who holds the lock then.
   */
  takeOver(thread: number, sizeBytes: () => number): { readonly tornBytes: number } | undefined {
    const words = this.#words
    const dead = thread + 1
    const held = Atomics.compareExchange(words, LOCK, dead, this.#me) === dead
    if (held) this.#depth = 1
    else if (words[TORN_BY] !== dead || !this.enter(SLEEP_MS)) return undefined
    words[TORN_BY] = 0
    const end = this.#floats[END] as number
    const intended = words[INTENDED_BYTES] as number
    const added = held ? sizeBytes() - end : 0
    if (held && intended > 0 && added === intended) {
      this.wrote()
      return { tornBytes: 0 }
    }
    words[INTENDED_BYTES] = 0
    return { tornBytes: Math.max(0, added) }
  }

  /** A seat nobody has; undefined when all are taken. */
  claimSeat(): DataView<SharedArrayBuffer> | undefined {
    for (const seat of this.#seats()) {
      const owner = new Int32Array(this.buffer, seat.byteOffset, 1)
      if (Atomics.compareExchange(owner, 0, 0, this.#me) === 0) return seat
    }
    return undefined
  }

  seatOf(thread: number): DataView<SharedArrayBuffer> | undefined {
    for (const seat of this.#seats()) if (seat.getInt32(0, true) === thread + 1) return seat
    return undefined
  }

  *#seats(): Generator<DataView<SharedArrayBuffer>> {
    const bytes = this.#words[SEAT_BYTES] as number
    for (let i = 0; i < (this.#words[SEATS] as number); i++) {
      yield new DataView(this.buffer, HEAD_BYTES + i * bytes, bytes)
    }
  }
}
