import { hash } from 'node:crypto'
import type { BigIntStats } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { checkPrivate, checkSize, utf8Text } from '../load-file.ts'

export interface Disk {
  /** Follows symlinks. */
  stat(file: string): Promise<BigIntStats>
  read(file: string): Promise<string>
}

export interface WatchOptions {
  readonly intervalMs?: number | undefined
  /** The content that the caller has. Only other content is reported. */
  readonly known?: string
  /** True when the caller knows that the file cannot be read. */
  readonly isGone?: boolean
  /** Takes new content, perhaps half written. The next check waits for the result. A throw counts as a failed read. */
  readonly onChange: (text: string) => unknown
  /** Called once when two reads in a row have failed. When the file can be read again, `onChange` is called. */
  readonly onGone: (error: Error) => void
  readonly disk?: Disk
}

/** Number of checks that read the file after a change of its identity, because coarse file times can hide a second write. */
const SUSPICIOUS_CHECKS = 8

/** Checks until a retry. They take a second at the usual interval. */
const LATER_CHECKS = 4
/** `againLater` waits this many times as long as the use of the content took. */
const LATER_FACTOR = 20
const REPORTED_FAILURES = 2

const DISK = diskOf(async (file) => utf8Text(await readFile(file)))

/** For PEM files, which may have comments in any encoding. */
export const LENIENT_DISK = diskOf((file) => readFile(file, 'utf8'))

/** For secrets that need not stay in memory: reads the SHA-256 of the file instead. */
export const HASHED_DISK = diskOf(async (file) => hash('sha256', await LENIENT_DISK.read(file)))

/** For binary files: each byte becomes one character. */
export const BINARY_DISK = diskOf((file) => readFile(file, 'latin1'))

export const PRIVATE_DISK = diskOf(async (file) => {
  checkPrivate(await stat(file))
  return LENIENT_DISK.read(file)
})

function diskOf(read: Disk['read']): Disk {
  return { stat: (file) => stat(file, { bigint: true }), read }
}

/**
 * Watches one file by polling, because `fs.watch` misses a rename over the file, a swapped symlink (Kubernetes
 * ConfigMap), an edit behind a symlink, and network file systems. Does not keep the process alive.
 */
export class FileWatch {
  readonly #file: string
  readonly #options: WatchOptions
  readonly #intervalMs: number
  readonly #disk: Disk
  /** Undefined: the content that is read next is reported. */
  #known: string | undefined
  #identity: string | undefined
  #suspiciousChecks = 0
  /** Checks until the content is reported even if it is the same; 0: only a change is reported. */
  #againIn = 0
  #failures = 0
  #check: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(file: string, options: WatchOptions) {
    this.#file = file
    this.#options = options
    this.#intervalMs = options.intervalMs ?? 250
    this.#disk = options.disk ?? DISK
    this.#known = options.known
    if (options.isGone === true) this.#failures = REPORTED_FAILURES
    this.#schedule()
  }

  /** Resolves after the callback. Does not reject when the file cannot be read. */
  check(): Promise<void> {
    // Checks run one after another, because two at once could report older content after newer.
    this.#check = this.#check.then(() => this.#checkOnce())
    return this.#check
  }

  /** Reports the content at the next check, even if it is the same. */
  again(): void {
    this.#againIn = 1
  }

  /** Reports the content again after a second, or later if its use took long. @param tookMs how long its use took */
  againLater(tookMs: number): void {
    const checks = Math.max(LATER_CHECKS, Math.ceil((tookMs * LATER_FACTOR) / this.#intervalMs))
    this.#againIn = this.#againIn === 0 ? checks : Math.min(this.#againIn, checks)
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

  async #checkOnce(): Promise<void> {
    if (this.#againIn > 0) this.#countDown()
    try {
      const text = await this.#readIfSuspicious()
      if (text !== undefined && text !== this.#known && !this.#stopped) {
        await this.#options.onChange(text)
        this.#known = text
      }
      this.#failures = 0
    } catch (error) {
      this.#failed(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #countDown(): void {
    this.#againIn -= 1
    if (this.#againIn > 0) return
    this.#known = undefined
    this.#identity = undefined
  }

  async #readIfSuspicious(): Promise<string | undefined> {
    const at = await this.#disk.stat(this.#file)
    if (!at.isFile()) throw new Error(`${this.#file} is not a regular file`)
    checkSize(at.size)
    const identity = `${at.dev}:${at.ino}:${at.size}:${at.mtimeNs}:${at.ctimeNs}`
    if (identity !== this.#identity) this.#suspiciousChecks = SUSPICIOUS_CHECKS
    else if (this.#suspiciousChecks === 0) return undefined
    else this.#suspiciousChecks -= 1
    // Set before the read, so that the next check sees another identity if the file is written meanwhile.
    this.#identity = identity
    return this.#disk.read(this.#file)
  }

  /** Ignores one failure, because some editors remove a file before they write it again. */
  #failed(error: Error): void {
    this.#failures += 1
    this.#identity = undefined
    if (this.#failures !== REPORTED_FAILURES || this.#stopped) return
    this.#known = undefined
    this.#options.onGone(error)
  }
}
