import {
  JoinedKeyLog,
  KeyLog,
  type KeyStore,
  oldest,
  ownFlags,
  type StoreFlags,
  setNewest,
} from './key-log.ts'

/** What several threads need that remember the same keys, each in a copy of its own. */
export interface KeySharing {
  /** What the copies are to begin with; undefined for the thread that reads and tends the files. */
  readonly copy: Iterable<readonly [key: string, atMs: number]> | undefined
  enter(): void
  leave(): void
  catchUp(): void
  /** Tells the others of a key; `written`: it is in the file. */
  publish(key: string, atMs: number, written: boolean): void
  readonly flags: StoreFlags
}

export interface RememberedKeysOptions {
  /** Each key is remembered for this long; the same for all, so that the oldest is always the first to go. */
  readonly lifetimeMs: number
  /** Epoch milliseconds that never step and never run back during a run. */
  readonly clock: () => number
  /** Undefined: memory only. */
  readonly store: KeyStore | undefined
  /** Undefined: this thread is the only one. */
  readonly sharing?: KeySharing | undefined
}

// More than are added by one call, so that old ones are gone sooner than new ones come.
const SWEPT_AT_ONCE = 8

/**
 * Keys that must not be forgotten before their time: in memory and, with a store, in a file, so that neither a restart
 * nor `kill -9` loses one. After a lifetime the file takes the place of the one before it, so the disk holds what came
 * within two lifetimes at most.
 *
 * No clock is believed when it comes to forgetting: a lifetime is measured while a gateway runs, and at a start by the times
 * in the file alone, as if the newest key had come just now. So a clock that was wrong for one start erases nothing, and a
 * key may be remembered for as long again as the gateway was down.
 */
export class RememberedKeys {
  readonly #options: RememberedKeysOptions
  readonly #disk: KeyLog | JoinedKeyLog | undefined
  readonly #flags: StoreFlags
  /** Key to the time when it came, oldest first. */
  readonly #keys = new Map<string, number>()

  /** @throws Error when there is a file that cannot be read: to go on would forget what it holds */
  constructor(options: RememberedKeysOptions) {
    this.#options = options
    const { store, sharing } = options
    this.#flags = sharing?.flags ?? ownFlags()
    if (sharing?.copy !== undefined) {
      for (const [key, atMs] of sharing.copy) this.#keys.set(key, atMs)
      this.#disk = store && new JoinedKeyLog(store, this.#flags)
    } else if (store !== undefined) this.#disk = this.#load(store)
  }

  #load(store: KeyStore): KeyLog {
    const { clock, lifetimeMs } = this.#options
    const nowMs = clock()
    const disk = new KeyLog(store, { lifetimeMs, nowMs, flags: this.#flags })
    const loaded = [...disk.load()].sort((a, b) => a.atMs - b.atMs)
    const newestMs = loaded.at(-1)?.atMs ?? nowMs
    for (const { key, atMs } of loaded) {
      if (atMs > newestMs - lifetimeMs) setNewest(this.#keys, key, nowMs - (newestMs - atMs))
    }
    disk.compact(this.#keys)
    return disk
  }

  /** Keys in memory: those that count, and those whose time is over but that have not been swept away yet. */
  get size(): number {
    return this.#keys.size
  }

  /** When the key came last, epoch milliseconds; undefined when it did not or has been swept away. */
  since(key: string): number | undefined {
    return this.#keys.get(key)
  }

  /** Whether the last line that was to be written is in the file. */
  get isWritable(): boolean {
    return !this.#flags.failing.raised
  }

  /** Whether nothing that is remembered would be lost by a crash. */
  get isSafe(): boolean {
    return !this.#flags.exposed.raised
  }

  /**
   * Remembers a key anew, whatever the disk says: in memory from now on, and in the file or its reserve by the time this
   * returns. Among several threads it must be within a step. Never throws.
   *
   * @returns false when a crash would lose it; then it is written as soon as that can be done (`tend`)
   */
  add(key: string): boolean {
    const nowMs = this.#options.clock()
    setNewest(this.#keys, key, nowMs)
    this.sweep()
    const written = this.#disk?.append(key, nowMs) !== false
    const safe = written || this.#disk?.putAside(key, nowMs) === true
    this.#options.sharing?.publish(key, nowMs, written)
    return safe
  }

  /** The same, only if it is in the file when this returns. @returns whether it is */
  addIfWritten(key: string): boolean {
    const nowMs = this.#options.clock()
    if (this.#disk?.append(key, nowMs) === false) {
      this.#disk.drop(key)
      return false
    }
    setNewest(this.#keys, key, nowMs)
    this.sweep()
    this.#options.sharing?.publish(key, nowMs, true)
    return true
  }

  /** To be called once a second, and at the end: tries again what could not be written. Among several threads it must be within a step. */
  tend(): void {
    this.#disk?.tend(this.#keys)
  }

  /** Another thread has remembered a key; `written`: its line is in the file. */
  apply(key: string, atMs: number, written: boolean): void {
    setNewest(this.#keys, key, atMs)
    this.sweep()
    this.#disk?.apply(key, atMs, written)
  }

  /** Every key with its time, oldest first. */
  entries(): Iterable<readonly [key: string, atMs: number]> {
    return this.#keys
  }

  /** Forgets the oldest few whose time is over: at least one, if there is one. */
  sweep(): void {
    const untilMs = this.#options.clock() - this.#options.lifetimeMs
    for (const [key, atMs] of oldest(this.#keys, SWEPT_AT_ONCE)) {
      if (atMs > untilMs) return
      this.#keys.delete(key)
      this.#disk?.drop(key)
    }
  }
}
