import { KeyFiles, type KeyStore, ownFlags, type StoreFlags } from './key-files.ts'

/** For threads that remember the same keys, each in its own copy. */
export interface KeyReplication {
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
  readonly replication?: KeyReplication | undefined
}

// More than one call adds, so that expired keys go faster than new ones come.
const SWEPT_AT_ONCE = 8
const IN_MEMORY = { written: true, safe: true }

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
  readonly #files: KeyFiles | undefined
  readonly #flags: StoreFlags
  /** Key to the time when it came, oldest first. */
  readonly #keys = new Map<string, number>()

  /** @throws Error when a file cannot be read, or a newer gateway wrote it: going on would forget its keys. */
  constructor(options: RememberedKeysOptions) {
    this.#options = options
    const { store, replication, lifetimeMs, clock } = options
    const copy = replication?.copy
    this.#flags = replication?.flags ?? ownFlags()
    const nowMs = clock()
    const maintains = copy === undefined
    this.#files = store && new KeyFiles(store, { flags: this.#flags, maintains, lifetimeMs, nowMs })
    if (!maintains) for (const [key, atMs] of copy) this.#keys.set(key, atMs)
    else if (this.#files !== undefined) this.#load(this.#files, nowMs)
  }

  #load(files: KeyFiles, nowMs: number): void {
    const { lifetimeMs } = this.#options
    const loaded = [...files.load()].sort((a, b) => a.atMs - b.atMs)
    const newestMs = loaded.at(-1)?.atMs ?? nowMs
    for (const { key, atMs } of loaded) {
      if (atMs > newestMs - lifetimeMs) this.#set(key, nowMs - (newestMs - atMs))
    }
    files.compact(this.#keys)
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
   * be called under their shared lock. Never throws.
   *
   * @returns false when a crash would lose the key; it is then written as soon as possible (`maintain`).
   */
  add(key: string): boolean {
    const nowMs = this.#options.clock()
    const { written, safe } = this.#files?.put(key, nowMs) ?? IN_MEMORY
    this.#remember(key, nowMs, written)
    return safe
  }

  /** As `add`, but only if the key is written to the file. @returns whether it was. */
  addIfWritten(key: string): boolean {
    const nowMs = this.#options.clock()
    if (this.#files?.append(key, nowMs) === false) return false
    this.#remember(key, nowMs, true)
    return true
  }

  /** Call once a second and at the end: writes what could not be written. With several threads, under their shared lock. */
  maintain(): void {
    this.#files?.maintain(this.#keys, this.#options.clock())
  }

  /** Another thread has remembered a key; `written`: its line is in the file. */
  apply(key: string, atMs: number, written: boolean): void {
    this.#set(key, atMs)
    this.sweep()
    this.#files?.apply(key, atMs, written)
  }

  /** Every key with its time, oldest first. */
  entries(): Iterable<readonly [key: string, atMs: number]> {
    return this.#keys
  }

  /** Removes the oldest few expired keys: at least one, if there is one. */
  sweep(): void {
    const untilMs = this.#options.clock() - this.#options.lifetimeMs
    let left = SWEPT_AT_ONCE
    for (const [key, atMs] of this.#keys) {
      if (atMs > untilMs || left-- === 0) return
      this.#keys.delete(key)
    }
  }

  #remember(key: string, nowMs: number, written: boolean): void {
    this.#set(key, nowMs)
    this.sweep()
    this.#options.replication?.publish(key, nowMs, written)
  }

  /** The newest key is the last. */
  #set(key: string, atMs: number): void {
    this.#keys.delete(key)
    this.#keys.set(key, atMs)
  }
}
