import { readdirSync } from 'node:fs'
import { join } from 'node:path'

/** One append-only file of the journal, and what is known of it without reading it again. */
export class Segment {
  readonly file: string
  readonly startMs: number
  /** Time of the newest hit of each row's counters, by their id. */
  readonly #newestMs: Map<number, number>

  /** `from` is a segment whose last hits may end up in this one. */
  constructor(directory: string, startMs: number, from?: Segment) {
    this.file = join(directory, `hits-${startMs}.ndjson`)
    this.startMs = startMs
    this.#newestMs = new Map(from === undefined ? [] : from.#newestMs)
  }

  /** The segment holds, or is about to hold, a hit of these counters. */
  note(id: number, atMs: number): void {
    const newestMs = this.#newestMs.get(id)
    if (newestMs === undefined || newestMs < atMs) this.#newestMs.set(id, atMs)
  }

  /** Whether any window may still count a hit of it; `windows` are the windows by id, in milliseconds. */
  isNeeded(windows: ReadonlyMap<number, number>, nowMs: number): boolean {
    for (const [id, newestMs] of this.#newestMs) {
      const windowMs = windows.get(id)
      if (windowMs !== undefined && nowMs - newestMs < windowMs) return true
    }
    return false
  }
}

/** The segments in a directory, oldest first. Throws when it cannot be read. */
export function segmentsIn(directory: string): Segment[] {
  const starts = readdirSync(directory).flatMap((name) => {
    const start = /^hits-(\d{1,15})\.ndjson$/.exec(name)?.[1]
    return start === undefined ? [] : [Number(start)]
  })
  return starts.sort((a, b) => a - b).map((startMs) => new Segment(directory, startMs))
}
