import { typeOf } from './audit-records.ts'
import type { ForeignWrite } from './seal-records.ts'

/** Where a trail reports what becomes of its records. */
export interface TrailListeners {
  /** Every write or commit that failed, and every file that could not be opened. */
  onFault(error: Error): void
  /** Every record, once the operating system has all of it; with `synced`, once the disk has it. */
  onRecord(type: string): void
  /** Others have written to the files of the trail. */
  onForeign?(what: ForeignWrite): void
  /** Lines are written again after an outage. */
  onWritable?(): void
}

export class TrailReports {
  readonly #listeners: TrailListeners
  /** Since lines could be written last. */
  #hasFailed = false

  constructor(listeners: TrailListeners) {
    this.#listeners = listeners
  }

  fault(error: Error): void {
    this.#hasFailed = true
    this.#listeners.onFault(error)
  }

  /** Lines can be written: after an outage, but also after a move to another file, or a hand-over that came to nothing. */
  writable(): void {
    if (this.#hasFailed) this.#listeners.onWritable?.()
    this.#hasFailed = false
  }

  /** These lines are in the file. */
  written(lines: readonly string[]): void {
    for (const line of lines) this.#listeners.onRecord(typeOf(line))
  }

  /** @param error why the lines are not in the file. */
  attempted(lines: readonly string[], error: Error | undefined): void {
    if (error === undefined) this.written(lines)
    else this.fault(error)
  }
}
