import { fdatasync } from 'node:fs'
import { countsOf, type RecordCounts } from '../audit-records.ts'
import type { CommitStart, TrailFile } from '../file/trail-file.ts'
import { Commit, type CommitPolicy, type Group } from './commit.ts'
import type { Outage } from './outage.ts'

const MAX_TURNS = 4

interface GroupCommitOptions {
  readonly trailFile: TrailFile
  readonly outage: Outage
  /** True for `synced`: the disk must have the lines. False for `written`: the operating system must. */
  readonly syncs: boolean
}

/**
 * Durability `written` and `synced`: one write at the end of a turn of the event loop takes all lines. With `synced`,
 * one `fdatasync` then commits them. A growing group waits a few turns, which halves the syncs under load. One group is
 * committed at a time, so its lines are the last in the file. If `fdatasync` fails, they are cut off, since the kernel
 * may have dropped pages, and a second call would report success.
 */
export class GroupCommit implements CommitPolicy {
  readonly #options: GroupCommitOptions
  readonly #onTurnEnd = () => this.#begin()
  readonly #onFreed = () => this.#tryAgain()
  #lines: string[] = []
  #next = new Commit()
  #scheduled = false
  #syncing = false
  /** Turns the group has waited, and its lines at the end of the last turn. */
  #turns = 0
  #linesBefore = 0
  #underway = 0

  constructor(options: GroupCommitOptions) {
    this.#options = options
  }

  add(line: string): Commit {
    this.#lines.push(line)
    this.#schedule()
    return this.#next
  }

  get uncommitted(): number {
    return this.#lines.length + this.#underway
  }

  flush(): void {
    if (!this.#options.syncs) this.#write()
  }

  close(): Group {
    return this.#take()
  }

  #take(): Group {
    const taken = { lines: this.#lines, commit: this.#next }
    this.#lines = []
    this.#next = new Commit()
    return taken
  }

  #schedule(): void {
    if (this.#scheduled || this.#syncing || this.#lines.length === 0) return
    this.#scheduled = true
    setImmediate(this.#onTurnEnd)
  }

  #begin(): void {
    this.#scheduled = false
    if (!this.#options.syncs) this.#write()
    else if (this.#grows()) this.#schedule()
    else if (this.#lines.length > 0) this.#beginSync()
  }

  #tryAgain(): void {
    this.#scheduled = false
    if (this.#lines.length > 0) this.#beginSync()
  }

  #grows(): boolean {
    const { length } = this.#lines
    const grows = length > this.#linesBefore && this.#turns < MAX_TURNS
    this.#turns = grows ? this.#turns + 1 : 0
    this.#linesBefore = grows ? length : 0
    return grows
  }

  #write(): void {
    if (this.#lines.length === 0) return
    const unwritable = this.#options.outage.resume()
    const group = this.#take()
    const error = unwritable ?? this.#options.trailFile.put(group.lines)
    if (error === undefined) this.#succeed(group, this.#options.trailFile.written)
    else this.#fail(error, group, unwritable === undefined)
  }

  #beginSync(): void {
    const { trailFile, outage } = this.#options
    const freed = trailFile.takeCommit()
    if (freed !== undefined) {
      this.#scheduled = true
      void freed.then(this.#onFreed)
      return
    }
    const unwritable = outage.resume()
    const start = trailFile.startCommit()
    const group = this.#take()
    const error = unwritable ?? trailFile.put(group.lines)
    if (error !== undefined) {
      trailFile.releaseCommit()
      this.#fail(error, group, unwritable === undefined)
      return
    }
    this.#syncing = true
    this.#underway = group.lines.length
    const { written } = trailFile
    fdatasync(trailFile.sink.fd, (failed) => this.#endSync(failed, group, start, written))
  }

  #endSync(error: Error | null, group: Group, start: CommitStart, written: RecordCounts): void {
    const { trailFile } = this.#options
    this.#syncing = false
    this.#underway = 0
    if (error !== null) trailFile.rollBackTo(start)
    trailFile.releaseCommit()
    if (error !== null) {
      this.#fail(error, group, true)
      return
    }
    this.#succeed(group, written)
    this.#schedule()
  }

  #succeed({ commit }: Group, written: RecordCounts): void {
    this.#options.outage.written(written)
    commit.finish(undefined)
  }

  #fail(error: Error, { lines, commit }: Group, wasTried: boolean): void {
    const next = this.#take()
    const fault = wasTried
      ? { error, tried: lines, waiting: next.lines }
      : { error, tried: [], waiting: [...lines, ...next.lines] }
    this.#options.outage.commitFailed(fault)
    commit.finish(error)
    next.commit.finish(error)
  }
}

const BUFFER_MS = 5
const BUFFER_CHARS = 64 * 1024

/** Durability `buffered`: no request waits, and a crash loses lines. */
export class BufferedCommit implements CommitPolicy {
  readonly #parts: Omit<GroupCommitOptions, 'syncs'>
  #lines: string[] = []
  #chars = 0
  #timer: NodeJS.Timeout | undefined = undefined

  constructor(parts: Omit<GroupCommitOptions, 'syncs'>) {
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
    const { trailFile, outage } = this.#parts
    clearTimeout(this.#timer)
    this.#timer = undefined
    const lines = this.#lines
    if (lines.length === 0) return
    this.#lines = []
    this.#chars = 0
    if (!outage.writable) {
      outage.addPending(lines)
      return
    }
    const error = trailFile.put(lines)
    const count = error === undefined ? lines.length : trailFile.wholeLines
    outage.written(error === undefined ? trailFile.written : countsOf(lines.slice(0, count)))
    outage.addPending(lines.slice(count))
    if (error !== undefined) outage.start(error)
  }

  close(): Group {
    this.flush()
    return { lines: [], commit: new Commit() }
  }
}
