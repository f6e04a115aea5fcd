import { KeyFiles, type KeyStore } from './key-files.ts'

export interface KeyTally {
  added(key: string): void
  removed(key: string): void
}

interface RememberedKeysOptions {
  /** Equal for all keys, so that the oldest expires first. */
  readonly lifetimeMs: number
  /** Epoch milliseconds, monotonic during a run. */
  readonly clock: () => number
  /** The caller judges ages by this clock, which may be set back. Default: `clock`. */
  readonly wallClock?: (() => number) | undefined
  readonly store: KeyStore | undefined
  readonly tally?: KeyTally | undefined
}

/** More than a call adds. */
const SWEPT_AT_ONCE = 8
const NOISE_MS = 500
/** After a set-back of a year, held keys would fill the memory. */
const MAX_SET_BACK_MS = 24 * 3_600_000

/**
 * Keys that are remembered for a fixed time, in memory and in files, so that a restart or `kill -9` loses none. Each
 * lifetime begins a new file, and only the file before is kept. `clock` measures ages, so that a wrong wall clock
 * erases nothing. At a start, the newest key in the files counts as new. If the wall clock is set back, by at most a
 * day, keys are remembered until they have expired by both clocks. A later process does not know of the set-back.
 */
export class RememberedKeys {
  readonly #options: RememberedKeysOptions
  readonly #files: KeyFiles | undefined
  #lifetimeMs: number
  /** Oldest first. */
  readonly #keys = new Map<string, number>()
  /** Called with each key that is added here, to pass it to the other process of a restart, old or new. */
  otherProcess: ((key: string) => void) | undefined
  /** Expired by `clock`, but not by the wall clock. */
  readonly #held = new Map<string, number>()
  /** Wall clock minus `clock`. */
  #aheadMs: number
  /** For keys that came until `untilMs`, the wall clock was ahead of `clock` by at most `aheadMs`. */
  #setBack = { untilMs: Number.NEGATIVE_INFINITY, aheadMs: 0 }

  /** @throws Error when a file cannot be read, or is of a newer gateway, because its keys would be forgotten */
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

  /** Includes expired keys that are not swept yet. */
  get size(): number {
    return this.#keys.size + this.#held.size
  }

  /** Epoch milliseconds; undefined when the key is not remembered. */
  since(key: string): number | undefined {
    return this.#keys.get(key) ?? (this.#held.size === 0 ? undefined : this.#held.get(key))
  }

  /** @returns whether a key of that time has expired by both clocks */
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

  /** Never throws. @returns false when a crash before `maintain` would lose the key */
  add(key: string): boolean {
    const nowMs = this.#options.clock()
    this.otherProcess?.(key)
    const isSafe = this.#files?.put(key, nowMs) !== false
    this.#remember(key, nowMs)
    return isSafe
  }

  /** @returns whether the key was written, and is remembered */
  addIfWritten(key: string): boolean {
    const nowMs = this.#options.clock()
    if (this.#files?.append(key, nowMs) === false) return false
    this.otherProcess?.(key)
    this.#remember(key, nowMs)
    return true
  }

  maintain(): void {
    this.#files?.maintain(this.#keys, this.#options.clock())
  }

  /** Writes all keys anew. Another process may have replaced the files. */
  takeBack(): void {
    this.#files?.compact(this.#keys)
  }

  /** @param written true when the key's line is in the file */
  apply(key: string, atMs: number, written: boolean): void {
    this.#remember(key, atMs)
    this.#files?.apply(key, atMs, written)
  }

  entries(): Iterable<readonly [key: string, atMs: number]> {
    return this.#keys
  }

  /** Removes a few expired keys. @returns whether none is left */
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
