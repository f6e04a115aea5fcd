import type { BigIntStats } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { checkSize, utf8Text } from '../file-text.ts'

/** The two questions a watch asks of the file system. */
export interface Disk {
  /** Of what a symlink leads to. */
  stat(file: string): Promise<BigIntStats>
  read(file: string): Promise<string>
}

export interface WatchOptions {
  /** Time between two looks at the file, in milliseconds. */
  readonly intervalMs?: number | undefined
  /** The content the caller has already: it is not told again. Undefined: the first look tells it. */
  readonly known?: string
  /** The content is another. It may be half written: see `Watch.again`. No look begins before what it returns is done. */
  readonly onChange: (text: string) => unknown
  /** The file could not be read twice in a row. Told once; when it can be read again, `onChange` tells its content. */
  readonly onGone: (error: Error) => void
  readonly disk?: Disk
}

export interface Watch {
  /** Looks now; resolves when the look is over and its callback has returned. Never rejects by the file's fault. */
  check(): Promise<void>
  /** Has the content told once more at the next look, even when it is the same. */
  again(): void
  stop(): void
}

/**
 * After the file's identity has changed, looks that read it whatever its identity: a clock of file times may be as
 * coarse as two seconds, so a second write of the same length can be invisible.
 */
const SUSPICIOUS_LOOKS = 8

const DISK: Disk = {
  stat: (file) => stat(file, { bigint: true }),
  read: async (file) => utf8Text(await readFile(file)),
}

/** Where bytes that are no UTF-8 do not matter: PEM may stand among comments in any encoding. */
export const LENIENT_DISK: Disk = { stat: DISK.stat, read: (file) => readFile(file, 'utf8') }

/**
 * Watches one file by looking at it, not by `fs.watch`, which goes blind when a file is replaced by rename, when a
 * symlink on the way to it is swapped (the `..data` of a Kubernetes ConfigMap), when a symlink's target is edited in
 * another directory, and on network file systems. A look is one `stat`, and a read only when its answer has changed.
 * What counts is the content: a touched file has not changed. Does not keep the process alive.
 */
export function watchFile(file: string, options: WatchOptions): Watch {
  return new PolledFile(file, options)
}

class PolledFile implements Watch {
  readonly #file: string
  readonly #options: WatchOptions
  readonly #intervalMs: number
  readonly #disk: Disk
  /** Undefined: whatever is read next is told. */
  #known: string | undefined
  #identity: string | undefined
  #suspiciousLooks = 0
  #failures = 0
  #look: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(file: string, options: WatchOptions) {
    this.#file = file
    this.#options = options
    this.#intervalMs = options.intervalMs ?? 250
    this.#disk = options.disk ?? DISK
    this.#known = options.known
    this.#schedule()
  }

  check(): Promise<void> {
    // One after another: two looks at once could tell an older content after a newer one.
    this.#look = this.#look.then(() => this.#lookOnce())
    return this.#look
  }

  again(): void {
    this.#known = undefined
    this.#identity = undefined
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#stopped) return
    this.#timer = setTimeout(() => void this.check().finally(() => this.#schedule()), this.#intervalMs)
    this.#timer.unref()
  }

  async #lookOnce(): Promise<void> {
    let text: string | undefined
    try {
      text = await this.#readIfSuspicious()
    } catch (error) {
      this.#failed(error instanceof Error ? error : new Error(String(error)))
      return
    }
    this.#failures = 0
    if (text === undefined || text === this.#known || this.#stopped) return
    this.#known = text
    await this.#options.onChange(text)
  }

  async #readIfSuspicious(): Promise<string | undefined> {
    const at = await this.#disk.stat(this.#file)
    if (!at.isFile()) throw new Error(`${this.#file} is not a regular file`)
    checkSize(at.size)
    const identity = `${at.dev}:${at.ino}:${at.size}:${at.mtimeNs}:${at.ctimeNs}`
    if (identity !== this.#identity) this.#suspiciousLooks = SUSPICIOUS_LOOKS
    else if (this.#suspiciousLooks === 0) return undefined
    else this.#suspiciousLooks -= 1
    // Taken before the read: a write in between makes the next look see another identity.
    this.#identity = identity
    return this.#disk.read(this.#file)
  }

  /** Editors that remove a file before they write it anew leave a moment without one. */
  #failed(error: Error): void {
    this.#failures += 1
    this.#identity = undefined
    if (this.#failures !== 2 || this.#stopped) return
    this.#known = undefined
    this.#options.onGone(error)
  }
}
