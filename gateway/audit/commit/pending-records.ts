import { stopRecord } from '../audit-records.ts'
import type { TrailFile } from '../file/trail-file.ts'
import type { TrailReports } from '../trail-reports.ts'

/** An AUDIT_STOP, whose count of open requests is taken when it is written. */
interface PendingStop {
  readonly reason: string
  readonly timestamp: string
}

type PendingRecord = string | PendingStop

/** Records that could not be written, in their order. A line that is in the file in part comes first. */
export class PendingRecords {
  readonly #trailFile: TrailFile
  readonly #reports: TrailReports
  #records: PendingRecord[] = []

  constructor(trailFile: TrailFile, reports: TrailReports) {
    this.#trailFile = trailFile
    this.#reports = reports
  }

  add(record: PendingRecord): void {
    this.#records.push(record)
  }

  get count(): number {
    return this.#records.length
  }

  /** Writes them in order until one fails. @returns why it failed. */
  flush(): Error | undefined {
    let done = 0
    let error: Error | undefined
    for (const record of this.#records) {
      error = typeof record === 'string' ? this.#putLine(record) : this.#putStop(record, done)
      if (error !== undefined) break
      done++
    }
    this.#records.splice(0, done)
    return error
  }

  copy(): readonly PendingRecord[] {
    return [...this.#records]
  }

  restore(records: readonly PendingRecord[]): void {
    this.#records = [...records]
  }

  #putLine(line: string): Error | undefined {
    const error = this.#trailFile.put([line])
    this.#reports.attempted([line], error)
    return error
  }

  #putStop({ reason, timestamp }: PendingStop, at: number): Error | undefined {
    const line = stopRecord({ timestamp, pid: process.pid, open: this.#trailFile.open, reason })
    const error = this.#trailFile.put([line])
    this.#reports.attempted([line], error)
    // A part of it is in the file: the rest must be of the same line.
    if (error !== undefined && this.#trailFile.torn) this.#records[at] = line
    return error
  }
}
