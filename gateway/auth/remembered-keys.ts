import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { appendLines, formatKey, type KeyForm, readKeys, replaceFile } from './remembered-keys-file.ts'

/** Where keys outlive the process. */
export interface KeyStore {
  /** Made when it is not there. */
  readonly dataDir: string
  /** The files are `<name>.ndjson` and `<name>.old.ndjson`. */
  readonly name: string
  readonly form: KeyForm
  /** Told of anything wrong with the file; what was remembered stays so in memory. */
  readonly onFault: (cause: string) => void
}

/** What several threads need that remember the same keys, each in a copy of its own. */
export interface KeySharing {
  /** What the copies are to begin with; undefined for the thread that reads and tends the files. */
  readonly copy: Iterable<readonly [key: string, atMs: number]> | undefined
  enter(): void
  leave(): void
  catchUp(): void
  /** Tells the others of a key; `written`: it is in the file. */
  tell(key: string, atMs: number, written: boolean): void
  /** A flag of all: the file ends in the middle of a line. */
  readonly torn: { raised: boolean }
}

export interface RememberedKeysOptions {
  /** Each key is remembered for this long; the same for all, so that the oldest is always the first to go. */
  readonly lifetimeMs: number
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Undefined: memory only. */
  readonly store: KeyStore | undefined
  /** Undefined: this thread is the only one. */
  readonly sharing?: KeySharing | undefined
}

// More than are added by one call, so that old ones are gone sooner than new ones come.
const SWEPT_AT_ONCE = 8
const APPENDED_AT_ONCE = 1_000

/**
 * Keys that must not be forgotten before their time: in memory and, with a store, in a file, so that neither a restart
 * nor `kill -9` loses one. After a lifetime the file takes the place of the one before it, so the disk holds what came
 * within two lifetimes at most.
 */
export class RememberedKeys {
  readonly #options: RememberedKeysOptions
  readonly #disk: KeyLog | JoinedKeyLog | undefined
  /** Key to the time when it came, oldest first. */
  readonly #keys = new Map<string, number>()

  /** @throws Error when there is a file that cannot be read: to go on would forget what it holds */
  constructor(options: RememberedKeysOptions) {
    this.#options = options
    const { store, sharing } = options
    if (sharing?.copy !== undefined) {
      for (const [key, atMs] of sharing.copy) this.#keys.set(key, atMs)
      this.#disk = store && new JoinedKeyLog(store, sharing)
    } else if (store !== undefined) this.#disk = this.#load(store)
  }

  #load(store: KeyStore): KeyLog {
    const { clock, lifetimeMs, sharing } = this.#options
    const nowMs = clock()
    const disk = new KeyLog(store, { lifetimeMs, nowMs, torn: sharing?.torn })
    for (const { key, atMs: writtenMs } of disk.load()) {
      // A time to come, from a clock since set back, must not be remembered for longer than any other.
      const atMs = Math.min(writtenMs, nowMs)
      if (atMs > nowMs - lifetimeMs) setNewest(this.#keys, key, atMs)
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

  /**
   * Remembers a key anew: from now on in memory, and in the file by the time this returns. When the disk refuses, its
   * line is tried again with the next key. Among several threads it must be within a step. Never throws.
   */
  add(key: string): void {
    const nowMs = this.#options.clock()
    setNewest(this.#keys, key, nowMs)
    this.sweep()
    const written = this.#disk?.write(key, nowMs)
    this.#options.sharing?.tell(key, nowMs, written !== false)
  }

  /** Another thread has remembered a key; `written`: its line is in the file. */
  learn(key: string, atMs: number, written: boolean): void {
    setNewest(this.#keys, key, atMs)
    this.sweep()
    this.#disk?.learn(key, atMs, written)
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

interface KeyLogOptions {
  readonly lifetimeMs: number
  readonly nowMs: number
  readonly torn?: { raised: boolean } | undefined
}

/** The file of a store as a thread has it that only appends to it. */
class JoinedKeyLog {
  readonly #store: KeyStore
  readonly #sharing: KeySharing

  constructor(store: KeyStore, sharing: KeySharing) {
    this.#store = store
    this.#sharing = sharing
  }

  /** Whether the line is in the file; otherwise the thread that tends the files will try again, and report it. */
  write(key: string, atMs: number): boolean {
    const { dataDir, name, form } = this.#store
    const { torn } = this.#sharing
    const line = formatKey(form, { key, atMs })
    const text = torn.raised ? `\n${line}` : line
    torn.raised = true
    try {
      appendLines(join(dataDir, `${name}.ndjson`), text)
      torn.raised = false
      return true
    } catch {
      return false
    }
  }

  learn(): void {}

  drop(): void {}
}

/** The two files of a store. */
class KeyLog {
  readonly #store: KeyStore
  readonly #lifetimeMs: number
  readonly #file: string
  readonly #oldFile: string
  /** Keys that are not in the file yet, with their time. */
  readonly #unwritten = new Map<string, number>()
  /** Whether the file may end in the middle of a line. */
  readonly #torn: { raised: boolean }
  #fileSinceMs: number

  constructor(store: KeyStore, { lifetimeMs, nowMs, torn = { raised: false } }: KeyLogOptions) {
    this.#store = store
    this.#lifetimeMs = lifetimeMs
    this.#torn = torn
    this.#file = join(store.dataDir, `${store.name}.ndjson`)
    this.#oldFile = join(store.dataDir, `${store.name}.old.ndjson`)
    this.#fileSinceMs = nowMs
  }

  *load(): Iterable<{ readonly key: string; readonly atMs: number }> {
    for (const file of [this.#oldFile, this.#file]) {
      const { keys, faults, torn } = readKeys(this.#store.form, file)
      yield* keys
      for (const fault of faults) this.#store.onFault(`${file}: ${fault}`)
      this.#torn.raised = torn
    }
  }

  compact(keys: ReadonlyMap<string, number>): void {
    this.#attempt('compact', () => {
      mkdirSync(this.#store.dataDir, { recursive: true })
      replaceFile(this.#file, this.#linesOf(keys))
      this.#torn.raised = false
      rmSync(this.#oldFile, { force: true })
    })
  }

  write(key: string, atMs: number): void {
    setNewest(this.#unwritten, key, atMs)
    this.#attempt('start a new file', () => this.#turnOver(atMs))
    this.#attempt('append', () => this.#append())
  }

  /** Another thread has written the key, or could not. */
  learn(key: string, atMs: number, written: boolean): void {
    if (!written || this.#unwritten.size > 0) {
      if (!written) setNewest(this.#unwritten, key, atMs)
      this.#attempt('append', () => this.#append())
    }
    this.#attempt('start a new file', () => this.#turnOver(atMs))
  }

  drop(key: string): void {
    this.#unwritten.delete(key)
  }

  #append(): void {
    while (this.#unwritten.size > 0) {
      const batch = oldest(this.#unwritten, APPENDED_AT_ONCE)
      const lines = this.#linesOf(batch)
      const text = this.#torn.raised ? `\n${lines}` : lines
      this.#torn.raised = true
      appendLines(this.#file, text)
      this.#torn.raised = false
      for (const [key] of batch) this.#unwritten.delete(key)
    }
  }

  /** By now everything in the file before this one is forgotten, so this one may take its place. */
  #turnOver(nowMs: number): void {
    if (nowMs - this.#fileSinceMs < this.#lifetimeMs) return
    renameSync(this.#file, this.#oldFile)
    this.#fileSinceMs = nowMs
    this.#torn.raised = false
  }

  #linesOf(keys: Iterable<[string, number]>): string {
    let lines = ''
    for (const [key, atMs] of keys) lines += formatKey(this.#store.form, { key, atMs })
    return lines
  }

  #attempt(what: string, work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#store.onFault(`${this.#file}: cannot ${what}: ${String(error)}`)
    }
  }
}

function setNewest(keys: Map<string, number>, key: string, atMs: number): void {
  keys.delete(key)
  keys.set(key, atMs)
}

function oldest(keys: ReadonlyMap<string, number>, count: number): [string, number][] {
  const entries: [string, number][] = []
  for (const entry of keys) {
    if (entries.length === count) break
    entries.push(entry)
  }
  return entries
}
