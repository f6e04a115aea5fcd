import { threadId } from 'node:worker_threads'
import { SharedLock } from '../../storage/shared-lock.ts'

/** What another thread needs to write the same trail; can be posted to it. */
export interface TrailHandle {
  readonly file: string
  readonly shared: SharedArrayBuffer
}

/** Indices of the 32-bit words. */
const LOCK = 0
const COMMIT_LOCK = 1
const FD = 2
const GENERATION = 3
const OPEN = 4
const INTENDED_OPEN = 5
const INTENDED_BYTES = 6
const TORN_BY = 7
const DISTRUSTED = 8
const SUSPENDED = 9
/** Indices of the 64-bit floats after them. */
const END = 5
const COMMIT_START_END = 6
const COMMIT_START_OPEN = 7
const BYTES = 64
/** In place of COMMIT_START_END: the thread with the commit lock has written nothing yet. */
const UNMARKED = -1

/** Sleeping threads check the commit lock this often. */
const SLEEP_MS = 2

/** The end of the file in bytes, and the number of requests open there. */
export interface FileEnd {
  readonly end: number
  readonly open: number
}

/** The file in use, and the end of what is committed there, bytes. */
export interface CommittedEnd {
  readonly generation: number
  readonly fd: number
  readonly end: number
}

/** Where a commit began: if it fails, it is rolled back to here. */
export interface CommitStart extends FileEnd {
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
 * open requests, and, for `synced`, a second lock, the commit lock, from a write to the end of its `fdatasync`.
 *
 * A thread can be terminated between any two steps. So the intended change is stored before each write, and the locks name
 * their holders: the thread that takes a lock over can tell by the size of the file whether the write was done.
 */
export class SharedTrail {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array
  readonly #floats: Float64Array
  readonly #lock: SharedLock
  /** This thread as the holder of a lock; 0 is no thread. */
  readonly #me = threadId + 1
  #depth = 0

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer)
    this.#floats = new Float64Array(buffer)
    this.#lock = new SharedLock(this.#words, LOCK, threadId)
  }

  static create(): SharedTrail {
    const state = new SharedTrail(new SharedArrayBuffer(BYTES))
    state.#floats[COMMIT_START_END] = UNMARKED
    return state
  }

  /** Takes the lock; may be nested. @returns false when another thread held it for all of `timeoutMs` and wrote nothing. */
  enter(timeoutMs: number): boolean {
    if (this.#depth === 0 && !this.#acquire(timeoutMs)) return false
    this.#depth++
    return true
  }

  #acquire(timeoutMs: number): boolean {
    for (;;) {
      const end = this.#floats[END]
      if (this.#lock.acquire(timeoutMs)) return true
      // Nobody is dead while the file grows: on a busy machine the others had the lock in turns.
      if (timeoutMs === 0 || end === this.#floats[END]) return false
    }
  }

  leave(): void {
    if (--this.#depth === 0) this.#lock.release()
  }

  /** The `threadId` of the lock's holder, for messages. */
  get holder(): number {
    return this.#lock.holder
  }

  /** Takes the commit lock, if it is free. It may be kept across turns of the event loop. */
  takeCommitLock(): boolean {
    return Atomics.compareExchange(this.#words, COMMIT_LOCK, 0, this.#me) === 0
  }

  get hasCommitLock(): boolean {
    return Atomics.load(this.#words, COMMIT_LOCK) === this.#me
  }

  /** Blocks the thread until it has the commit lock. @returns false when another held it for all of `timeoutMs`. */
  awaitCommitLock(timeoutMs: number): boolean {
    const deadline = performance.now() + timeoutMs
    while (!this.takeCommitLock()) {
      if (performance.now() >= deadline) return false
      Atomics.wait(this.#words, COMMIT_LOCK, Atomics.load(this.#words, COMMIT_LOCK), SLEEP_MS)
    }
    return true
  }

  releaseCommitLock(): void {
    this.#releaseCommitLock(this.#me)
  }

  /** COMMIT_START_END is cleared first: a thread that dies before it sets its own has nothing to roll back. */
  #releaseCommitLock(owner: number): void {
    if (Atomics.load(this.#words, COMMIT_LOCK) !== owner) return
    this.#floats[COMMIT_START_END] = UNMARKED
    Atomics.store(this.#words, COMMIT_LOCK, 0)
    Atomics.notify(this.#words, COMMIT_LOCK)
  }

  /** Resolves when the commit lock may be free; another thread may still take it first. */
  async commitLockFreed(): Promise<void> {
    const holder = Atomics.load(this.#words, COMMIT_LOCK)
    const waiting = Atomics.waitAsync(this.#words, COMMIT_LOCK, holder === 0 ? -1 : holder, 20)
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

  /** How far the file in use is written for good: what is beyond may still be rolled back. Needs no lock. */
  committed(): CommittedEnd {
    for (;;) {
      const { generation, fd } = this
      const end = this.#floats[END] as number
      const start = this.#floats[COMMIT_START_END] as number
      const isSame = generation === this.generation && fd === this.fd
      if (!isSame || end !== this.#floats[END] || start !== this.#floats[COMMIT_START_END]) continue
      return { generation, fd, end: start === UNMARKED ? end : Math.min(end, start) }
    }
  }

  /** Requests in the trail without their response. */
  get open(): number {
    return this.#words[OPEN] as number
  }

  set open(count: number) {
    this.#words[OPEN] = count
  }

  /** Another thread has left a partial line, which only that thread can complete. */
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

  /** The thread that opened the file has given it up, for now or for good. */
  get suspended(): boolean {
    return Atomics.load(this.#words, SUSPENDED) !== 0
  }

  set suspended(suspended: boolean) {
    Atomics.store(this.#words, SUSPENDED, suspended ? 1 : 0)
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

  /** Under the lock. */
  fileEnd(): FileEnd {
    return { end: this.#floats[END] as number, open: this.open }
  }

  /** Under the lock: a tool may have shortened the file (`copytruncate`). */
  shortenTo(sizeBytes: number): void {
    if (sizeBytes < (this.#floats[END] as number)) this.#floats[END] = sizeBytes
  }

  /** Under the lock, after what was written since then has been cut off. */
  rollBackTo({ end, open, tornBytes }: CommitStart): void {
    this.#floats[END] = end
    this.#words[OPEN] = open
    this.#words[TORN_BY] = tornBytes > 0 ? this.#me : 0
  }

  /** Under both locks: what the file is rolled back to if this thread dies before it commits. */
  startCommit(): FileEnd {
    const here = this.fileEnd()
    this.#floats[COMMIT_START_OPEN] = here.open
    this.#floats[COMMIT_START_END] = here.end
    return here
  }

  /** With the commit lock, which is kept: what has been written stays. */
  endCommit(): void {
    this.#floats[COMMIT_START_END] = UNMARKED
  }

  /** Where the commit of a dead thread began, if it had the commit lock and had begun to write. */
  commitStartOf(thread: number): FileEnd | undefined {
    const end = this.#floats[COMMIT_START_END] as number
    if (Atomics.load(this.#words, COMMIT_LOCK) !== thread + 1 || end === UNMARKED) return undefined
    return { end, open: this.#floats[COMMIT_START_OPEN] as number }
  }

  releaseCommitLockOf(thread: number): void {
    this.#releaseCommitLock(thread + 1)
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
    const held = this.#lock.takeFrom(thread)
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
}
