import { renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { appendLines, formatKey, type KeyForm, readKeys, replaceFile } from './expiring-keys-file.ts'
import { makeDirectory } from './make-directory.ts'
import { Reserve } from './reserve.ts'

/** Where keys outlive the process. */
export interface KeyStore {
  /** Made when it is not there. */
  readonly dataDir: string
  /** The files are `<name>.ndjson` and `<name>.old.ndjson`. */
  readonly name: string
  readonly form: KeyForm
  /** Whether room is kept in `<name>.reserve.ndjson` for keys that a full disk would not take. */
  readonly reserve: boolean
  /** Told of anything wrong with the files; what was remembered stays so in memory. */
  readonly onFault: (cause: string) => void
  /** Told when the files were removed under the gateway, and are begun anew. */
  readonly onRemoved?: ((cause: string) => void) | undefined
}

/** What all threads know of the files of a store. Looked at and set within a step. */
export interface StoreFlags {
  /** The file ends in the middle of a line. */
  readonly torn: { raised: boolean }
  /** The last line that was to be written is not in the file. */
  readonly failing: { raised: boolean }
  /** There is a key that a crash would lose. */
  readonly exposed: { raised: boolean }
}

/** The flags of a store that only one thread has. */
export function ownFlags(): StoreFlags {
  return { torn: { raised: false }, failing: { raised: false }, exposed: { raised: false } }
}

const APPENDED_AT_ONCE = 1_000

/** Appending, as every thread does it. */
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

  /** @throws Error when not all of it was written; then the next lines begin on a line of their own. */
  append(lines: string): void {
    const { torn, failing } = this.#flags
    const text = torn.raised ? `\n${lines}` : lines
    failing.raised = true
    torn.raised = true
    appendLines(this.file, text)
    torn.raised = false
    failing.raised = false
  }

  /** Whether a crash would not lose the key, because the reserve has room for it. */
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

/** The files of a store as a thread has them that only appends to them: another one tends them. */
export class JoinedKeyLog {
  readonly #appender: KeyAppender

  constructor(store: KeyStore, flags: StoreFlags) {
    this.#appender = new KeyAppender(store, flags)
  }

  /** Whether the line is in the file; otherwise the thread that tends the files meets the same error, and reports it. */
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

/** The files of a store: one that is appended to, the one before it, and a reserve. */
export class KeyLog {
  readonly #store: KeyStore
  readonly #lifetimeMs: number
  readonly #flags: StoreFlags
  readonly #appender: KeyAppender
  readonly #file: string
  readonly #oldFile: string
  /** Keys that are not in the file yet, with their time. */
  readonly #unwritten = new Map<string, number>()
  /** Inodes of the files as they were seen last. */
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

  /** Every key that an earlier run has left, with its time. @throws Error when there is a file that cannot be read */
  *load(): Iterable<{ readonly key: string; readonly atMs: number }> {
    for (const file of [this.#appender.reserve?.file, this.#oldFile, this.#file]) {
      if (file === undefined) continue
      const { keys, faults, torn } = readKeys(this.#store.form, file)
      yield* keys
      for (const fault of faults) this.#store.onFault(`${file}: ${fault}`)
      this.#flags.torn.raised = torn
    }
  }

  /** Begins with one file of exactly these keys. @returns false when it could not; then all files are as they were */
  compact(keys: ReadonlyMap<string, number>): boolean {
    // Until it is known that the disk takes something.
    this.#flags.failing.raised = true
    return this.#attempt('compact', () => {
      makeDirectory(this.#store.dataDir)
      replaceFile(this.#file, this.#appender.linesOf(keys))
      this.#flags.torn.raised = false
      this.#flags.failing.raised = false
      this.#flags.exposed.raised = false
      this.#unwritten.clear()
      rmSync(this.#oldFile, { force: true })
      this.#see()
      this.#appender.reserve?.clear()
    })
  }

  /** Whether the line is in the file; otherwise the key is owed to it. */
  append(key: string, atMs: number): boolean {
    setNewest(this.#unwritten, key, atMs)
    this.#attempt('start a new file', () => this.#turnOver(atMs))
    return this.#attempt('append', () => this.#appendUnwritten())
  }

  putAside(key: string, atMs: number): boolean {
    return this.#appender.putAside(key, atMs)
  }

  /** Another thread has written the key, or could not. */
  apply(key: string, atMs: number, written: boolean): void {
    if (!written || this.#unwritten.size > 0) {
      if (!written) setNewest(this.#unwritten, key, atMs)
      this.#attempt('append', () => this.#appendUnwritten())
    }
    this.#attempt('start a new file', () => this.#turnOver(atMs))
  }

  /** The key need not be in the file any more. */
  drop(key: string): void {
    this.#unwritten.delete(key)
  }

  /**
   * Sees to the files once in a while, and at the end: writes what could not be written, and begins anew with `keys` when a
   * file is gone.
   */
  tend(keys: ReadonlyMap<string, number>): void {
    if (this.#areGone()) {
      this.#store.onRemoved?.(`${this.#file}: removed under the gateway, and begun anew`)
      // What the files held is in memory only now.
      if (!this.compact(keys)) this.#flags.exposed.raised = keys.size > 0
      return
    }
    if (this.#unwritten.size > 0) this.#attempt('append', () => this.#appendUnwritten())
    // A line is tried that says nothing, so that an end of the trouble is noticed without traffic.
    else if (this.#flags.failing.raised) this.#attempt('append', () => this.#appender.append('\n'))
    if (this.#unwritten.size === 0) {
      this.#attempt('keep a reserve', () => this.#appender.reserve?.clear())
      this.#flags.exposed.raised = false
    } else this.#putAllAside()
    this.#see()
  }

  #putAllAside(): void {
    this.#flags.exposed.raised = false
    for (const [key, atMs] of this.#unwritten) if (!this.putAside(key, atMs)) return
  }

  #appendUnwritten(): void {
    while (this.#unwritten.size > 0) {
      // What waits for a full disk may be much: a single line finds out whether there is room.
      const batch = oldest(this.#unwritten, this.#flags.failing.raised ? 1 : APPENDED_AT_ONCE)
      this.#appender.append(this.#appender.linesOf(batch))
      for (const [key] of batch) this.#unwritten.delete(key)
    }
  }

  /** By now everything in the file before this one is forgotten, so this one may take its place. */
  #turnOver(nowMs: number): void {
    if (nowMs - this.#fileSinceMs < this.#lifetimeMs) return
    renameSync(this.#file, this.#oldFile)
    this.#fileSinceMs = nowMs
    this.#flags.torn.raised = false
    this.#inodes.clear()
  }

  #areGone(): boolean {
    for (const [file, inode] of this.#inodes) if (inodeOf(file) !== inode) return true
    return false
  }

  #see(): void {
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
