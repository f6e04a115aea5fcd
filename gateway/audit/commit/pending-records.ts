import { openChangeOf, pairKeyOf, stopRecord } from '../audit-records.ts'
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

  /** Writes them in order until one fails. @returns why it failed */
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

interface SortedLines {
  /** API_REQUEST lines whose requests are refused. */
  readonly refused: readonly string[]
  /** The refused ones that could not be removed from the file, and need a response there. */
  readonly stranded: readonly string[]
  /** Lines that still have to be written. */
  readonly pending: readonly string[]
}

/**
 * Sorts the lines of a failed commit. A request whose response is among them (its client went away) is not refused.
 * @param inFile lines that stay in the file
 */
export function sortFailed(lines: readonly string[], inFile: readonly string[]): SortedLines {
  const responses = new Map<string | undefined, number>()
  for (const line of lines) {
    if (openChangeOf(line) === -1) responses.set(pairKeyOf(line), (responses.get(pairKeyOf(line)) ?? 0) + 1)
  }
  const sorted = { refused: [] as string[], stranded: [] as string[], pending: [] as string[] }
  const remaining = [...inFile]
  for (const line of lines) {
    const count = responses.get(pairKeyOf(line)) ?? 0
    const isInFile = takeFrom(remaining, line)
    if (openChangeOf(line) === 1 && count === 0) {
      sorted.refused.push(line)
      if (isInFile) sorted.stranded.push(line)
      continue
    }
    if (openChangeOf(line) === 1) responses.set(pairKeyOf(line), count - 1)
    if (!isInFile) sorted.pending.push(line)
  }
  return sorted
}

function takeFrom(lines: string[], line: string): boolean {
  const at = lines.indexOf(line)
  if (at !== -1) lines.splice(at, 1)
  return at !== -1
}
