import {
  JoinedKeyLog,
  KeyLog,
  type KeyStore,
  oldest,
  ownFlags,
  type StoreFlags,
  setNewest,
} from './key-log.ts'

/** For threads that remember the same keys, each in its own copy. */
export interface KeySharing {
  /** The keys to start with; undefined in the thread that reads and maintains the files. */
  readonly copy: Iterable<readonly [key: string, atMs: number]> | undefined
  enter(): void
  leave(): void
  catchUp(): void
  /** Sends a key to the other threads; `written`: it is in the file. */
  publish(key: string, atMs: number, written: boolean): void
  readonly flags: StoreFlags
}

export interface RememberedKeysOptions {
  /** How long each key is remembered; the same for all, so that the oldest always expires first. */
  readonly lifetimeMs: number
  /** Epoch milliseconds, monotonic during a run. */
  readonly clock: () => number
  /** Undefined: memory only. */
  readonly store: KeyStore | undefined
  /** Undefined: this thread is the only one. */
  readonly sharing?: KeySharing | undefined
}

// More than one call adds, so that expired keys go faster than new ones come.
const SWEPT_AT_ONCE = 8

/**
 * Keys that are remembered for a fixed time: in memory and, with a store, in a file, so that neither a restart nor `kill -9`
 * loses one. After each lifetime the file replaces the one before it, so the disk holds at most two lifetimes of keys.
 *
 * The wall clock never makes a key expire: age is measured while a gateway runs, and at a start by the times in the file
 * alone, as if the newest key had just come. So one start with a wrong clock erases nothing; the cost is that the time a
 * gateway is down does not count.
 */
export class RememberedKeys {
  readonly #options: RememberedKeysOptions
  readonly #disk: KeyLog | JoinedKeyLog | undefined
  readonly #flags: StoreFlags
  /** Key to the time when it came, oldest first. */
  readonly #keys = new Map<string, number>()

  /** @throws Error when a file cannot be read: going on would forget its keys. */
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

  /** Number of keys in memory, including expired ones that have not been swept yet. */
  get size(): number {
    return this.#keys.size
  }

  /** When the key was last added, epoch milliseconds; undefined when it is not remembered. */
  since(key: string): number | undefined {
    return this.#keys.get(key)
  }

  /** The last attempt to write succeeded. */
  get isWritable(): boolean {
    return !this.#flags.failing.raised
  }

  /** A crash would lose no key. */
  get isSafe(): boolean {
    return !this.#flags.exposed.raised
  }

  /**
   * Remembers a key from now on: in memory, and in the file or its reserve if the disk takes it. With several threads it must
   * be called within a step. Never throws.
   *
   * @returns false when a crash would lose the key; it is then written as soon as possible (`tend`).
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

  /** As `add`, but only if the key is written to the file. @returns whether it was. */
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

  /** Call once a second and at the end: writes what could not be written. With several threads, within a step. */
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

  /** Removes the oldest few expired keys: at least one, if there is one. */
  sweep(): void {
    const untilMs = this.#options.clock() - this.#options.lifetimeMs
    for (const [key, atMs] of oldest(this.#keys, SWEPT_AT_ONCE)) {
      if (atMs > untilMs) return
      this.#keys.delete(key)
      this.#disk?.drop(key)
    }
  }
}
