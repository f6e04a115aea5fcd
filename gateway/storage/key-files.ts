import { existsSync, readSync, renameSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { AppendLog } from './append-log.ts'
import {
  discard,
  type FileFormat,
  headerLine,
  makeDirectory,
  OWNER_ONLY,
  parsedJson,
  readLines,
  removeFile,
  replaceFile,
  withFile,
} from './line-file.ts'
import { readIfThere } from './regular-file.ts'

export interface KeyForm {
  readonly key: string
  /** Member with the time in epoch milliseconds, such as `revokedAtMs`. */
  readonly time: string
  readonly accepts: (value: unknown) => value is string
  readonly lines: string
  readonly contents: string
}

interface RememberedKey {
  readonly key: string
  readonly atMs: number
}

export interface KeyStore {
  readonly dataDir: string
  /** Files are `<name>.ndjson` and `<name>.old.ndjson`. */
  readonly name: string
  readonly form: KeyForm
  /** True keeps room in `<name>.reserve.ndjson` for keys that come when the disk is full. */
  readonly reserve: boolean
  /** Called when a file cannot be written, or has faulty lines. Keys that are not written stay in memory. */
  readonly onFault: (cause: string) => void
  /** Called when others removed the files. */
  readonly onRemoved?: ((cause: string) => void) | undefined
}

const VERSION = 1
const LINES_AT_ONCE = 1000

export class KeyFiles {
  readonly #store: KeyStore
  lifetimeMs: number
  readonly #format: FileFormat
  readonly #file: string
  readonly #oldFile: string
  readonly #log: AppendLog
  readonly #reserve: Reserve | undefined
  readonly #inodes = new Map<string, number>()
  #fileSinceMs: number
  /** True once this run has written the file with every remembered key. */
  #isComplete = false
  #isExposed = false

  constructor(store: KeyStore, lifetimeMs: number, nowMs: number) {
    const { dataDir, name } = store
    this.#store = store
    this.lifetimeMs = lifetimeMs
    this.#format = { name, version: VERSION }
    this.#file = join(dataDir, `${name}.ndjson`)
    this.#oldFile = join(dataDir, `${name}.old.ndjson`)
    this.#fileSinceMs = nowMs
    const header = headerLine(this.#format)
    if (store.reserve) this.#reserve = new Reserve(join(dataDir, `${name}.reserve.ndjson`), header)
    this.#log = new AppendLog({
      file: this.#file,
      header,
      onFault: (error) => this.#fault('append', error),
      retryMs: 0,
    })
  }

  get isWritable(): boolean {
    return !this.#log.isFailing
  }

  get isSafe(): boolean {
    return !this.#isExposed
  }

  *load(): Iterable<RememberedKey> {
    this.#log.isFailing = true
    for (const file of [this.#reserve?.file, this.#oldFile, this.#file]) {
      if (file === undefined) continue
      const { keys, faults, isTorn } = readKeys(this.#store.form, file, this.#format)
      yield* keys
      for (const fault of faults) this.#store.onFault(`${file}: ${fault}`)
      this.#log.isTorn = isTorn
    }
  }

  /** Replaces all files by one. @returns false when that failed; nothing is then lost */
  compact(keys: ReadonlyMap<string, number>): boolean {
    this.#isComplete = this.#attempt('compact', () => {
      makeDirectory(this.#store.dataDir)
      replaceFile(this.#file, this.#contents(keys))
      this.#log.forget()
      this.#log.isFailing = false
      this.#isExposed = false
      removeFile(this.#oldFile)
      this.#inodes.clear()
      this.#noteInodes()
      this.#reserve?.clear()
    })
    return this.#isComplete
  }

  /** A key that the file does not take goes to the reserve. @returns false when a crash would lose it */
  put(key: string, atMs: number): boolean {
    const line = this.#line(key, atMs)
    this.#rotateWhenDue(atMs)
    const isSafe = this.#log.put(line, atMs) || this.#reserve?.put(line) === true
    if (!isSafe) this.#isExposed = true
    return isSafe
  }

  /** Does not retry. @returns whether the key is in the file */
  append(key: string, atMs: number): boolean {
    this.#rotateWhenDue(atMs)
    return this.#log.append(this.#line(key, atMs), atMs)
  }

  /** Takes over a key that another process has tried to write. */
  apply(key: string, atMs: number, written: boolean): void {
    if (written) this.#log.flush(atMs)
    else this.put(key, atMs)
    this.#rotateWhenDue(atMs)
  }

  /** Called once a second and at the end. @param keys all that are remembered */
  maintain(keys: ReadonlyMap<string, number>, nowMs: number): void {
    if (this.#areFilesGone()) {
      this.#store.onRemoved?.(`${this.#file} was removed while the gateway was running, and is made again`)
      this.#isExposed = keys.size > 0
      this.#log.isFailing = true
      this.#isComplete = false
    }
    if (!this.#isComplete && this.compact(keys)) return
    this.#log.maintain(nowMs)
    if (this.#log.waitingBytes > 0 || (this.#log.lostLines > 0 && !this.compact(keys))) return
    // The reserve may hold keys that the file does not.
    if (!this.#isComplete) return
    this.#attempt('keep a reserve', () => this.#reserve?.clear())
    this.#isExposed = false
    if (!this.#inodes.has(this.#file)) this.#noteInodes()
  }

  /** After a lifetime, all keys of the old file have expired. */
  #rotateWhenDue(nowMs: number): void {
    // During a restart the other process may have replaced the files.
    if (nowMs - this.#fileSinceMs < this.lifetimeMs || this.#areFilesGone()) return
    this.#attempt('start a new file', () => {
      renameSync(this.#file, this.#oldFile)
      this.#log.leave()
      this.#fileSinceMs = nowMs
      this.#log.isTorn = false
      this.#inodes.clear()
    })
  }

  #line(key: string, atMs: number): string {
    const { form } = this.#store
    return `{"${form.key}":${JSON.stringify(key)},"${form.time}":${atMs}}\n`
  }

  *#contents(keys: ReadonlyMap<string, number>): Iterable<string> {
    yield headerLine(this.#format)
    let lines: string[] = []
    for (const [key, atMs] of keys) {
      if (lines.push(this.#line(key, atMs)) < LINES_AT_ONCE) continue
      yield lines.join('')
      lines = []
    }
    yield lines.join('')
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
      this.#fault(what, error)
      return false
    }
  }

  #fault(what: string, error: unknown): void {
    this.#store.onFault(`${this.#file}: cannot ${what}: ${String(error)}`)
  }
}

function inodeOf(file: string): number | undefined {
  try {
    return statSync(file).ino
  } catch {
    return undefined
  }
}

/** @throws Error when the file cannot be read, or is of a newer gateway */
function readKeys(form: KeyForm, file: string, format: FileFormat) {
  const { lines, firstLine, isTorn } = linesOf(form, file, format)
  if (isTorn) lines.pop()
  const faults = isTorn ? ['the last line was cut off and is left out'] : []
  const keys: RememberedKey[] = []
  const unreadable: number[] = []
  for (const [index, line] of lines.entries()) {
    if (line === '') continue
    const key = parseKey(form, line)
    if (key === undefined) unreadable.push(firstLine + index)
    else keys.push(key)
  }
  if (unreadable.length > 0) {
    faults.push(
      `${unreadable.length} line(s) that are no ${form.lines} are left out, the first is line ${unreadable[0]}`,
    )
  }
  return { keys, faults, isTorn }
}

function linesOf(form: KeyForm, file: string, format: FileFormat): ReturnType<typeof readLines> {
  try {
    return readLines(file, format)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { lines: [], firstLine: 1, isTorn: false }
    throw new Error(`${file}: ${form.contents} cannot be read: ${String(error)}`, { cause: error })
  }
}

function parseKey(form: KeyForm, line: string): RememberedKey | undefined {
  const { [form.key]: key, [form.time]: atMs } = (parsedJson(line) ?? {}) as Record<string, unknown>
  return form.accepts(key) && Number.isFinite(atMs) ? { key, atMs: Number(atMs) } : undefined
}

const RESERVE_BYTES = 16 * 1024

/** A file of blank lines, which are overwritten in place by lines that come when the disk is full. */
class Reserve {
  readonly file: string
  readonly #blank: string
  #isUnused = false

  constructor(file: string, header: string) {
    this.file = file
    this.#blank = header.padEnd(RESERVE_BYTES, '\n')
  }

  put(line: string): boolean {
    this.#isUnused = false
    try {
      return withFile(this.file, 'r+', (fd) => putInto(fd, line))
    } catch {
      return false
    }
  }

  /** Makes or blanks the file, once its lines are in another file. @throws Error when there is no room */
  clear(): void {
    if (this.#isUnused && existsSync(this.file)) return
    const found = readIfThere(this.file)
    if (found === undefined) makeBlank(this.file, this.#blank)
    // A new file would need the space a second time.
    else if (found.toString('latin1') !== this.#blank) writeFileSync(this.file, this.#blank, { flag: 'r+' })
    this.#isUnused = true
  }
}

function makeBlank(file: string, blank: string): void {
  try {
    writeFileSync(file, blank, { mode: OWNER_ONLY, flag: 'wx', flush: true })
  } catch (error) {
    discard(file)
    throw error
  }
}

function putInto(fd: number, line: string): boolean {
  const bytes = Buffer.alloc(RESERVE_BYTES)
  const text = bytes.toString('latin1', 0, readSync(fd, bytes, 0, RESERVE_BYTES, 0))
  const own = Buffer.from(line)
  if (text.includes(own.toString('latin1'))) return true
  // An interrupted write may have left half a line.
  const start = text.trimEnd().length + 1
  if (start + own.length > text.length) return false
  return writeSync(fd, own, 0, own.length, start) === own.length
}
