import type { TrailFile } from '../file/trail-file.ts'
import type { TrailReports } from '../trail-reports.ts'
import { Commit, type CommitPolicy, type Group } from './commit.ts'
import type { Outage } from './outage.ts'

/** Lines are written after this time, or when there are this many characters. */
const BUFFER_MS = 5
const BUFFER_CHARS = 64 * 1024

export interface BufferedCommitOptions {
  readonly trailFile: TrailFile
  readonly outage: Outage
  readonly reports: TrailReports
}

/**
 * Durability `buffered`: lines wait in memory and are written together. No request waits for them, so all of them tell of
 * what has happened: what cannot be written stays pending, and a crash loses what is in memory.
 */
export class BufferedCommit implements CommitPolicy {
  readonly #options: BufferedCommitOptions
  #lines: string[] = []
  #chars = 0
  #timer: NodeJS.Timeout | undefined = undefined

  constructor(options: BufferedCommitOptions) {
    this.#options = options
  }

  add(line: string): undefined {
    this.#lines.push(line)
    this.#chars += line.length
    if (this.#chars >= BUFFER_CHARS) this.flush()
    else this.#timer ??= setTimeout(() => this.flush(), BUFFER_MS)
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

  close(): Group {
    this.flush()
    return { lines: [], commit: new Commit() }
  }

  #write(lines: readonly string[]): void {
    const { trailFile, outage, reports } = this.#options
    if (!outage.writable) {
      outage.addPending(lines)
      return
    }
    const error = trailFile.put(lines)
    if (error === undefined) {
      reports.written(lines)
      return
    }
    const { wholeLines } = trailFile
    reports.written(lines.slice(0, wholeLines))
    outage.addPending(lines.slice(wholeLines))
    outage.start(error)
  }
}
