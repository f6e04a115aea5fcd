/** After this time, or with so many characters, what was gathered is written. */
const GATHER_MS = 5
const GATHER_CHARS = 64 * 1024

/** Lines that wait in memory to be written together: durability `buffered`. */
export class Gathered {
  readonly #write: (lines: readonly string[]) => void
  #lines: string[] = []
  #chars = 0
  #timer: NodeJS.Timeout | undefined = undefined

  /** @param write takes them; what it cannot write is its own to keep. */
  constructor(write: (lines: readonly string[]) => void) {
    this.#write = write
  }

  add(line: string): void {
    this.#lines.push(line)
    this.#chars += line.length
    if (this.#chars >= GATHER_CHARS) this.flush()
    else this.#timer ??= setTimeout(() => this.flush(), GATHER_MS)
  }

  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const lines = this.#lines
    if (lines.length === 0) return
    this.#lines = []
    this.#chars = 0
    this.#write(lines)
  }
}
