import { KeyFiles, type KeyStore } from './key-files.ts'

export interface KeyTally {
  added(key: string): void
  removed(key: string): void
}

interface RememberedKeysOptions {
  /** Equal for all keys, so that the oldest always expires first. */
  readonly lifetimeMs: number
  /** Epoch milliseconds, monotonic during a run. */
  readonly clock: () => number
  /** Clock by which the caller judges the age of what a key stands for. It may be set back. Default: `clock`. */
  readonly wallClock?: (() => number) | undefined
  readonly store: KeyStore | undefined
  readonly tally?: KeyTally | undefined
}

// More keys than one call adds, so that expired ones go faster than new ones come.
const SWEPT_AT_ONCE = 8
const NOISE_MS = 500
/** Longest set-back for which keys are held: after one of a year they would fill the memory for a year. */
const MAX_SET_BACK_MS = 24 * 3_600_000

/**
 * Keys that are remembered for a fixed time, in memory and, with a store, in a file: a restart or `kill -9` loses none. After
 * each lifetime a new file begins, and only the previous one is kept: the disk holds at most two lifetimes of keys.
 * The wall clock never makes a key expire: `clock` measures its age while a gateway runs, and at a start the newest key in the
 * file counts as new. So a wrong clock erases nothing. Time while no gateway runs does not count.
 * If the wall clock is set back, by at most a day, keys are remembered until they have expired by both clocks. A process that
 * starts later does not know of the set-back.
 */
export class RememberedKeys {
  readonly #options: RememberedKeysOptions
  readonly #files: KeyFiles | undefined
  #lifetimeMs: number
  /** Keys with the time when they came, oldest first. */
  readonly #keys = new Map<string, number>()
  /** Keys that have expired by `clock`, but not by the wall clock, which was set back. */
  readonly #held = new Map<string, number>()
  /** Wall clock minus `clock`. */
  #aheadMs: number
  /** For keys that came until `untilMs`, the wall clock was ahead of `clock` by at most `aheadMs`. */
  #setBack = { untilMs: Number.NEGATIVE_INFINITY, aheadMs: 0 }

  /** @throws Error when a file cannot be read, or a newer gateway wrote it: its keys would be forgotten */
  constructor(options: RememberedKeysOptions) {
    this.#options = options
    this.#lifetimeMs = options.lifetimeMs
    const { store, lifetimeMs, clock } = options
    const nowMs = clock()
    this.#aheadMs = this.#aheadAt(nowMs)
    this.#files = store && new KeyFiles(store, lifetimeMs, nowMs)
    if (this.#files !== undefined) this.#load(this.#files, nowMs)
  }

  #load(files: KeyFiles, nowMs: number): void {
    const loaded = [...files.load()].sort((a, b) => a.atMs - b.atMs)
    const newestMs = loaded.at(-1)?.atMs ?? nowMs
    for (const { key, atMs } of loaded) {
      if (atMs > newestMs - this.#lifetimeMs) this.#set(key, nowMs - (newestMs - atMs))
    }
    files.compact(this.#keys)
  }

  set lifetimeMs(lifetimeMs: number) {
    this.#lifetimeMs = lifetimeMs
    if (this.#files !== undefined) this.#files.lifetimeMs = lifetimeMs
  }

  /** Number of keys, including expired ones that have not been swept yet. */
  get size(): number {
    return this.#keys.size + this.#held.size
  }

  /** When the key was last added, epoch milliseconds; undefined when it is not remembered. */
  since(key: string): number | undefined {
    return this.#keys.get(key) ?? (this.#held.size === 0 ? undefined : this.#held.get(key))
  }

  /** @returns whether a key that was added at `atMs` has expired by both clocks */
  isOver(atMs: number): boolean {
    const nowMs = this.#options.clock()
    if (nowMs < atMs + this.#lifetimeMs) return false
    this.#followWallClock(nowMs)
    return !this.#isHeld(atMs, nowMs)
  }

  get isWritable(): boolean {
    return this.#files?.isWritable !== false
  }

  get isSafe(): boolean {
    return this.#files?.isSafe !== false
  }

  /** Remembers a key from now on. Never throws. @returns false when a crash before `maintain` would lose it */
  add(key: string): boolean {
    const nowMs = this.#options.clock()
    const isSafe = this.#files?.put(key, nowMs) !== false
    this.#remember(key, nowMs)
    return isSafe
  }

  /** As `add`, but only if the key is written to the file. @returns whether it was */
  addIfWritten(key: string): boolean {
    const nowMs = this.#options.clock()
    if (this.#files?.append(key, nowMs) === false) return false
    this.#remember(key, nowMs)
    return true
  }

  /** To be called once a second and at the end: retries failed writes. */
  maintain(): void {
    this.#files?.maintain(this.#keys, this.#options.clock())
  }

  /** Remembers a key from elsewhere, such as the predecessor. @param written true when its line is in the file */
  apply(key: string, atMs: number, written: boolean): void {
    this.#remember(key, atMs)
    this.#files?.apply(key, atMs, written)
  }

  entries(): Iterable<readonly [key: string, atMs: number]> {
    return this.#keys
  }

  /** Removes a few expired keys, if there are any. @returns whether none is left */
  sweep(): boolean {
    const nowMs = this.#options.clock()
    this.#followWallClock(nowMs)
    const untilMs = nowMs - this.#lifetimeMs
    let isDone = true
    let left = SWEPT_AT_ONCE
    for (const [key, atMs] of this.#held) {
      if (this.#isHeld(atMs, nowMs)) break
      if (left-- === 0) {
        isDone = false
        break
      }
      this.#held.delete(key)
      this.#options.tally?.removed(key)
    }
    left = SWEPT_AT_ONCE
    for (const [key, atMs] of this.#keys) {
      if (atMs > untilMs) break
      if (left-- === 0) return false
      this.#keys.delete(key)
      if (this.#isHeld(atMs, nowMs)) this.#held.set(key, atMs)
      else this.#options.tally?.removed(key)
    }
    return isDone
  }

  #aheadAt(nowMs: number): number {
    return (this.#options.wallClock?.() ?? nowMs) - nowMs
  }

  #followWallClock(nowMs: number): void {
    const aheadMs = this.#aheadAt(nowMs)
    if (aheadMs < this.#aheadMs && aheadMs > this.#aheadMs - NOISE_MS) return
    if (aheadMs < this.#aheadMs) {
      const before = this.#setBack
      const isPast = this.#held.size === 0 && before.untilMs < nowMs - this.#lifetimeMs
      const wasMs = isPast ? this.#aheadMs : Math.max(before.aheadMs, this.#aheadMs)
      this.#setBack = { untilMs: nowMs, aheadMs: wasMs }
    }
    this.#aheadMs = aheadMs
  }

  #isHeld(atMs: number, nowMs: number): boolean {
    const { untilMs, aheadMs } = this.#setBack
    if (atMs > untilMs) return false
    const behindMs = aheadMs - this.#aheadMs
    return behindMs <= MAX_SET_BACK_MS && nowMs - behindMs < atMs + this.#lifetimeMs
  }

  #remember(key: string, atMs: number): void {
    this.#set(key, atMs)
    this.sweep()
  }

  #set(key: string, atMs: number): void {
    const isKnown = this.#keys.delete(key)
    const isHeld = this.#held.delete(key)
    if (!isKnown && !isHeld) this.#options.tally?.added(key)
    this.#keys.set(key, atMs)
  }
}
