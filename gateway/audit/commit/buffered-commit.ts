import { Commit, type CommitPolicy, type Group } from './commit.ts'
import type { GroupCommitOptions } from './group-commit.ts'

type Parts = Pick<GroupCommitOptions, 'trailFile' | 'outage' | 'reports'>

/** Lines are written after this time, or when there are this many characters. */
const BUFFER_MS = 5
const BUFFER_CHARS = 64 * 1024

/**
 * Durability `buffered`: lines wait in memory and are written together. No request waits for them, so none can be refused
 * any more: lines that cannot be written stay pending. A crash loses what is in memory.
 */
export class BufferedCommit implements CommitPolicy {
  readonly #parts: Parts
  #lines: string[] = []
  #chars = 0
  #timer: NodeJS.Timeout | undefined = undefined

  constructor(parts: Parts) {
    this.#parts = parts
  }

  add(line: string): undefined {
    this.#lines.push(line)
    this.#chars += line.length
    if (this.#chars >= BUFFER_CHARS) this.flush()
    else this.#timer ??= setTimeout(() => this.flush(), BUFFER_MS)
  }

  get uncommitted(): number {
    return this.#lines.length
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
    const { trailFile, outage, reports } = this.#parts
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
