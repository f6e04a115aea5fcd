import { threadId } from 'node:worker_threads'

/** What another thread needs to write the same trail; can be posted to it. */
export interface TrailHandle {
  readonly file: string
  readonly shared: SharedArrayBuffer
}

/** Indices of the 32-bit words. */
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
/** Indices of the 64-bit floats after them. */
const END = 8
const TURN_END = 9
const TURN_OPEN = 10
const HEAD_BYTES = 128
/** In place of TURN_END: the thread with the turn has written nothing yet. */
const UNMARKED = -1

/** Attempts to take the lock before the thread sleeps: a write takes about 3 µs. */
const SPINS = 200
const SLEEP_MS = 2

/** The end of the file in bytes, and the number of requests open there. */
export interface FileEnd {
  readonly end: number
  readonly open: number
}

/** Where a turn began: a failed commit rolls back to it. */
export interface TurnStart extends FileEnd {
  /** Bytes of a partial line of this thread, before the end. */
  readonly tornBytes: number
}

/** What a failed write left in the file. */
export interface FailedWrite {
  /** Bytes that could not be cut off. */
  readonly addedBytes: number
  /** All bytes of the partial line, also those of earlier writes. */
  readonly tornBytes: number
  /** Change of the number of open requests by the whole lines. */
  readonly openChange: number
}

/**
 * What all threads of a trail share in memory: the lock held around each write and its repair, the file, the number of
 * open requests, and, for `synced`, which thread has the turn to commit.
 *
 * A thread can be terminated between any two steps. So the intended change is stored before each write, and the lock names
 * its holder: whoever takes the lock over can tell by the size of the file whether the write was done.
 */
export class SharedTrail {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array
  readonly #floats: Float64Array
  /** This thread's number in the words; 0 is no thread. */
  readonly #me = threadId + 1
  #depth = 0

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer, 0, HEAD_BYTES / 4)
    this.#floats = new Float64Array(buffer, 0, HEAD_BYTES / 8)
  }

  /** @param seats how many threads can join. @param seatBytes memory of each, which is read when the thread has died. */
  static create({ seats, seatBytes }: { readonly seats: number; readonly seatBytes: number }): SharedTrail {
    const state = new SharedTrail(new SharedArrayBuffer(HEAD_BYTES + seats * seatBytes))
    state.#words[SEATS] = seats
    state.#floats[TURN_END] = UNMARKED
    state.#words[SEAT_BYTES] = seatBytes
    return state
  }

  /** Takes the lock; may be nested. @returns false when another thread held it for all of `patienceMs`. */
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

  /** The `threadId` of the lock's holder, for messages. */
  get holder(): number {
    return Atomics.load(this.#words, LOCK) - 1
  }

  /** Takes the turn to write and commit, if it is free. It may be kept across turns of the event loop. */
  takeTurn(): boolean {
    return Atomics.compareExchange(this.#words, TURN, 0, this.#me) === 0
  }

  passTurn(): void {
    this.#passTurn(this.#me)
  }

  /** TURN_END is cleared first: a thread that dies before it sets its own has nothing to roll back. */
  #passTurn(owner: number): void {
    if (Atomics.load(this.#words, TURN) !== owner) return
    this.#floats[TURN_END] = UNMARKED
    Atomics.store(this.#words, TURN, 0)
    Atomics.notify(this.#words, TURN)
  }

  /** Resolves when the turn may be free; another thread may still take it first. */
  async turnFreed(): Promise<void> {
    const holder = Atomics.load(this.#words, TURN)
    const waiting = Atomics.waitAsync(this.#words, TURN, holder === 0 ? -1 : holder, 20)
    if (!waiting.async) return
    // `waitAsync` alone does not keep the process alive.
    const alive = setTimeout(() => {}, 1000)
    await waiting.value
    clearTimeout(alive)
  }

  get fd(): number {
    return this.#words[FD] as number
  }

  /** Incremented with each new file. */
  get generation(): number {
    return Atomics.load(this.#words, GENERATION)
  }

  /** Under the lock: all threads write to this file from now on. */
  setFile(fd: number, sizeBytes: number): void {
    this.#words[FD] = fd
    this.#words[TORN_BY] = 0
    this.#words[DISTRUSTED] = 0
    this.#floats[END] = sizeBytes
    Atomics.add(this.#words, GENERATION, 1)
  }

  /** Requests in the trail without their response. */
  get open(): number {
    return this.#words[OPEN] as number
  }

  set open(count: number) {
    this.#words[OPEN] = count
  }

  /** Another thread has left a partial line and must finish it first. */
  get tornByAnother(): boolean {
    const torn = this.#words[TORN_BY]
    return torn !== 0 && torn !== this.#me
  }

  /** A commit failed and could not be rolled back: nothing more is written to this file. */
  get distrusted(): boolean {
    return Atomics.load(this.#words, DISTRUSTED) !== 0
  }

  distrust(): void {
    Atomics.store(this.#words, DISTRUSTED, 1)
  }

  /** Under the lock, before a write. */
  beforeWrite(bytes: number, openChange: number): void {
    this.#words[INTENDED_OPEN] = this.open + openChange
    this.#words[INTENDED_BYTES] = bytes
  }

  /** Under the lock, after a write. `takeOver` depends on the order of the steps. */
  afterWrite(): void {
    const bytes = this.#words[INTENDED_BYTES] as number
    this.#words[OPEN] = this.#words[INTENDED_OPEN] as number
    this.#floats[END] = (this.#floats[END] as number) + bytes
    this.#words[INTENDED_BYTES] = 0
    this.#words[TORN_BY] = 0
  }

  /** Under the lock, after a failed write. */
  afterFailedWrite({ addedBytes, tornBytes, openChange }: FailedWrite): void {
    this.open += openChange
    this.#floats[END] = (this.#floats[END] as number) + addedBytes
    this.#words[INTENDED_BYTES] = 0
    this.#words[TORN_BY] = tornBytes > 0 ? this.#me : 0
  }

  /** Under the lock: the end of the file. */
  here(): FileEnd {
    return { end: this.#floats[END] as number, open: this.open }
  }

  /** Under the lock, after what was written since then has been cut off. */
  rollBackTo({ end, open, tornBytes }: TurnStart): void {
    this.#floats[END] = end
    this.#words[OPEN] = open
    this.#words[TORN_BY] = tornBytes > 0 ? this.#me : 0
  }

  /** Under the lock, with the turn: what the file is rolled back to if this thread dies before it commits. */
  startTurn(): FileEnd {
    const here = this.here()
    this.#floats[TURN_OPEN] = here.open
    this.#floats[TURN_END] = here.end
    return here
  }

  /** Where the turn of a dead thread began, if it had the turn and had begun to write. */
  turnOf(thread: number): FileEnd | undefined {
    const end = this.#floats[TURN_END] as number
    if (Atomics.load(this.#words, TURN) !== thread + 1 || end === UNMARKED) return undefined
    return { end, open: this.#floats[TURN_OPEN] as number }
  }

  passTurnOf(thread: number): void {
    this.#passTurn(thread + 1)
  }

  /**
   * Takes over the lock of a dead thread.
   *
   * @returns undefined when it held no lock and left no partial line; otherwise the caller holds the lock and must cut off
   * or end `tornBytes` of a partial line.
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
      this.afterWrite()
      return { tornBytes: 0 }
    }
    words[INTENDED_BYTES] = 0
    return { tornBytes: Math.max(0, added) }
  }

  /** Claims a free seat; undefined when all are taken. */
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
