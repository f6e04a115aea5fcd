import { stopRecord } from '../audit-records.ts'
import type { Pen } from '../file/trail-file.ts'

/** An AUDIT_STOP whose count of open requests is that of the moment at which it is written. */
export interface Stop {
  readonly reason: string
  readonly timestamp: string
}

type Item = string | Stop

export interface OwedOptions {
  readonly pen: Pen
  /** Every attempt. */
  onPut(lines: readonly string[], error: Error | undefined): void
}

/** Records that could not be written, in their order; one of which a part stands in the file is the first. */
export class Owed {
  readonly #options: OwedOptions
  #items: Item[] = []

  constructor(options: OwedOptions) {
    this.#options = options
  }

  add(item: Item): void {
    this.#items.push(item)
  }

  /** How many there are. */
  get lines(): number {
    return this.#items.length
  }

  /** Writes them, as far as they go in. @returns why the first of the rest did not. */
  flush(): Error | undefined {
    let done = 0
    let error: Error | undefined
    for (const item of this.#items) {
      error = typeof item === 'string' ? this.#putLine(item) : this.#putStop(item, done)
      if (error !== undefined) break
      done++
    }
    this.#items.splice(0, done)
    return error
  }

  copy(): readonly Item[] {
    return [...this.#items]
  }

  restore(items: readonly Item[]): void {
    this.#items = [...items]
  }

  #putLine(line: string): Error | undefined {
    const error = this.#options.pen.put([line])
    this.#options.onPut([line], error)
    return error
  }

  #putStop({ reason, timestamp }: Stop, at: number): Error | undefined {
    const { pen, onPut } = this.#options
    const { line, error } = pen.putMark((open) => stopRecord({ timestamp, pid: process.pid, open, reason }))
    onPut([line], error)
    // Its beginning is in the file: its end must be the same.
    if (error !== undefined && pen.torn) this.#items[at] = line
    return error
  }
}
