import type { Durability } from '../config/settings.ts'
import type { ProcessLock } from '../storage/process-lock.ts'
import { typeOf } from './audit-records.ts'
import type { ForeignWrite } from './seal-records.ts'

export interface TrailOptions extends TrailListeners {
  /** `-` is standard output. */
  readonly file: string
  /** How far a record must have got before the request goes on; `written` by default. `synced` needs a regular file. */
  readonly durability?: Durability
  /** Version of the gateway, for AUDIT_START. */
  readonly version?: string
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** How long responses wait for records that cannot be written, milliseconds. */
  readonly timeoutMs?: number
  /** Released when the trail is closed. */
  readonly lock?: ProcessLock
  /** `sealWith` will be called: the lines are kept for it from the first on. */
  readonly isSealed?: boolean
}

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
