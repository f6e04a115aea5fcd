import { renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { appendLines, formatKey, type KeyForm, readKeys, replaceFile } from './expiring-keys-file.ts'
import { makeDirectory } from './make-directory.ts'
import { Reserve } from './reserve.ts'

/** The files in which keys outlive the process. */
export interface KeyStore {
  /** Made if missing. */
  readonly dataDir: string
  /** The files are `<name>.ndjson` and `<name>.old.ndjson`. */
  readonly name: string
  readonly form: KeyForm
  /** Keeps room in `<name>.reserve.ndjson` for keys that come when the disk is full. */
  readonly reserve: boolean
  /** Called for anything wrong with the files; the keys stay in memory. */
  readonly onFault: (cause: string) => void
  /** Called when the files were removed while in use, and are made again. */
  readonly onRemoved?: ((cause: string) => void) | undefined
}

/** State of a store's files that all threads share. Read and set within a step. */
export interface StoreFlags {
  /** The file ends in a partial line. */
  readonly torn: { raised: boolean }
  /** The last attempt to write failed. */
  readonly failing: { raised: boolean }
  /** A crash would lose a key. */
  readonly exposed: { raised: boolean }
}

/** Flags of a store that only one thread uses. */
export function ownFlags(): StoreFlags {
  return { torn: { raised: false }, failing: { raised: false }, exposed: { raised: false } }
}

const APPENDED_AT_ONCE = 1_000

/** Appends to the file of a store, in any thread. */
export class KeyAppender {
  readonly #store: KeyStore
  readonly #flags: StoreFlags
  readonly reserve: Reserve | undefined
  readonly file: string

  constructor(store: KeyStore, flags: StoreFlags) {
    this.#store = store
    this.#flags = flags
    this.file = join(store.dataDir, `${store.name}.ndjson`)
    if (store.reserve) this.reserve = new Reserve(join(store.dataDir, `${store.name}.reserve.ndjson`))
  }

  /** @throws Error when not all was written; the next call then begins a new line first. */
  append(lines: string): void {
    const { torn, failing } = this.#flags
    const text = torn.raised ? `\n${lines}` : lines
    failing.raised = true
    torn.raised = true
    appendLines(this.file, text)
    torn.raised = false
    failing.raised = false
  }

  /** Writes the key to the reserve. @returns false when it has no room, so a crash would lose the key. */
  putAside(key: string, atMs: number): boolean {
    const kept = this.reserve?.put(this.linesOf([[key, atMs]])) === true
    if (!kept) this.#flags.exposed.raised = true
    return kept
  }

  linesOf(keys: Iterable<readonly [key: string, atMs: number]>): string {
    let lines = ''
    for (const [key, atMs] of keys) lines += formatKey(this.#store.form, { key, atMs })
    return lines
  }
}

/** A store in a thread that only appends to its files; another thread maintains them. */
export class JoinedKeyLog {
  readonly #appender: KeyAppender

  constructor(store: KeyStore, flags: StoreFlags) {
    this.#appender = new KeyAppender(store, flags)
  }

  /** @returns whether the line is in the file. A failure is reported by the thread that maintains the files. */
  append(key: string, atMs: number): boolean {
    try {
      this.#appender.append(this.#appender.linesOf([[key, atMs]]))
      return true
    } catch {
      return false
    }
  }

  putAside(key: string, atMs: number): boolean {
    return this.#appender.putAside(key, atMs)
  }

  apply(): void {}

  drop(): void {}

  tend(): void {}
}

interface KeyLogOptions {
  readonly lifetimeMs: number
  readonly nowMs: number
  readonly flags: StoreFlags
}

/** The files of a store: the current one, the one before it, and a reserve. */
export class KeyLog {
  readonly #store: KeyStore
  readonly #lifetimeMs: number
  readonly #flags: StoreFlags
  readonly #appender: KeyAppender
  readonly #file: string
  readonly #oldFile: string
  /** Keys that are not in the file yet, with their times. */
  readonly #unwritten = new Map<string, number>()
  /** Inodes of the files when last seen. */
  readonly #inodes = new Map<string, number>()
  #fileSinceMs: number

  constructor(store: KeyStore, { lifetimeMs, nowMs, flags }: KeyLogOptions) {
    this.#store = store
    this.#lifetimeMs = lifetimeMs
    this.#flags = flags
    this.#appender = new KeyAppender(store, flags)
    this.#file = this.#appender.file
    this.#oldFile = join(store.dataDir, `${store.name}.old.ndjson`)
    this.#fileSinceMs = nowMs
  }

  /** Every key of earlier runs, with its time. @throws Error when a file cannot be read. */
  *load(): Iterable<{ readonly key: string; readonly atMs: number }> {
    for (const file of [this.#appender.reserve?.file, this.#oldFile, this.#file]) {
      if (file === undefined) continue
      const { keys, faults, torn } = readKeys(this.#store.form, file)
      yield* keys
      for (const fault of faults) this.#store.onFault(`${file}: ${fault}`)
      this.#flags.torn.raised = torn
    }
  }

  /** Replaces all files by one with exactly these keys. @returns false when that failed; the files are then unchanged. */
  compact(keys: ReadonlyMap<string, number>): boolean {
    // Until a write has succeeded.
    this.#flags.failing.raised = true
    return this.#attempt('compact', () => {
      makeDirectory(this.#store.dataDir)
      replaceFile(this.#file, this.#appender.linesOf(keys))
      this.#flags.torn.raised = false
      this.#flags.failing.raised = false
      this.#flags.exposed.raised = false
      this.#unwritten.clear()
      rmSync(this.#oldFile, { force: true })
      this.#noteInodes()
      this.#appender.reserve?.clear()
    })
  }

  /** @returns whether the line is in the file; otherwise the key stays unwritten, to be tried again. */
  append(key: string, atMs: number): boolean {
    setNewest(this.#unwritten, key, atMs)
    this.#attempt('start a new file', () => this.#rotateWhenDue(atMs))
    return this.#attempt('append', () => this.#appendUnwritten())
  }

  putAside(key: string, atMs: number): boolean {
    return this.#appender.putAside(key, atMs)
  }

  /** Another thread has written the key, or failed to. */
  apply(key: string, atMs: number, written: boolean): void {
    if (!written || this.#unwritten.size > 0) {
      if (!written) setNewest(this.#unwritten, key, atMs)
      this.#attempt('append', () => this.#appendUnwritten())
    }
    this.#attempt('start a new file', () => this.#rotateWhenDue(atMs))
  }

  /** The key no longer has to be written. */
  drop(key: string): void {
    this.#unwritten.delete(key)
  }

  /**
   * Maintains the files, once a second and at the end: writes what could not be written, and makes the files again with
   * `keys` when one is gone.
   */
  tend(keys: ReadonlyMap<string, number>): void {
    if (this.#areFilesGone()) {
      this.#store.onRemoved?.(`${this.#file}: removed under the gateway, and begun anew`)
      // The keys are only in memory now.
      if (!this.compact(keys)) this.#flags.exposed.raised = keys.size > 0
      return
    }
    if (this.#unwritten.size > 0) this.#attempt('append', () => this.#appendUnwritten())
    // An empty line is tried, so that recovery is noticed without traffic.
    else if (this.#flags.failing.raised) this.#attempt('append', () => this.#appender.append('\n'))
    if (this.#unwritten.size === 0) {
      this.#attempt('keep a reserve', () => this.#appender.reserve?.clear())
      this.#flags.exposed.raised = false
    } else this.#reserveAll()
    this.#noteInodes()
  }

  #reserveAll(): void {
    this.#flags.exposed.raised = false
    for (const [key, atMs] of this.#unwritten) if (!this.putAside(key, atMs)) return
  }

  #appendUnwritten(): void {
    while (this.#unwritten.size > 0) {
      // Many keys may be waiting for a full disk: one line tells whether there is room.
      const batch = oldest(this.#unwritten, this.#flags.failing.raised ? 1 : APPENDED_AT_ONCE)
      this.#appender.append(this.#appender.linesOf(batch))
      for (const [key] of batch) this.#unwritten.delete(key)
    }
  }

  /** After a lifetime all keys of the old file have expired: the current file replaces it. */
  #rotateWhenDue(nowMs: number): void {
    if (nowMs - this.#fileSinceMs < this.#lifetimeMs) return
    renameSync(this.#file, this.#oldFile)
    this.#fileSinceMs = nowMs
    this.#flags.torn.raised = false
    this.#inodes.clear()
  }

  #areFilesGone(): boolean {
    for (const [file, inode] of this.#inodes) if (inodeOf(file) !== inode) return true
    return false
  }

  #noteInodes(): void {
    for (const file of [this.#file, this.#oldFile]) {
      const inode = inodeOf(file)
      if (inode !== undefined) this.#inodes.set(file, inode)
    }
  }

  #attempt(what: string, work: () => void): boolean {
    try {
      work()
      return true
    } catch (error) {
      this.#store.onFault(`${this.#file}: cannot ${what}: ${String(error)}`)
      return false
    }
  }
}

function inodeOf(file: string): number | undefined {
  try {
    return statSync(file).ino
  } catch {
    return undefined
  }
}

export function setNewest(keys: Map<string, number>, key: string, atMs: number): void {
  keys.delete(key)
  keys.set(key, atMs)
}

export function oldest(keys: ReadonlyMap<string, number>, count: number): [string, number][] {
  const entries: [string, number][] = []
  for (const entry of keys) {
    if (entries.length === count) break
    entries.push(entry)
  }
  return entries
}
