import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Journal, type OnJournalFailure } from './journal/limit-journal.ts'
import { Limiter } from './limiter.ts'

const home = mkdtempSync(join(tmpdir(), 'limits-'))
process.on('exit', () => rmSync(home, { recursive: true }))
let directories = 0

export const START_MS = 1_763_692_800_000

export function directory(): string {
  return join(home, `${++directories}`)
}

/** A limiter on a real journal, which can be restarted and crashed. */
export class Gateway {
  nowMs = START_MS
  /** False: the disk takes nothing. */
  hasRoom = true
  readonly #onFailure: OnJournalFailure
  directory = directory()
  limiter: Limiter

  constructor(onFailure: OnJournalFailure = 'degraded') {
    this.#onFailure = onFailure
    this.limiter = this.#open()
  }

  restart(): void {
    this.limiter.close()
    this.limiter = this.#open()
  }

  /** Goes on with a copy of what is on disk now, as after SIGKILL. */
  crash(): void {
    const next = directory()
    cpSync(this.directory, next, { recursive: true })
    this.close()
    this.directory = next
    this.limiter = this.#open()
  }

  close(): void {
    this.limiter.close()
    rmSync(this.directory, { recursive: true })
  }

  /** Hits of each window. */
  counts(key: string): number[] {
    const { nowMs, rows } = this.limiter.inForce()
    return rows.map(([, counters]) => counters.countOf(key, nowMs))
  }

  #open(): Limiter {
    const journal = new Journal({
      directory: this.directory,
      onFailure: this.#onFailure,
      reports: {
        // Lines of a window that an edit took away are strays.
        ignored: ({ file, damagedLines, reason }) =>
          assert.deepEqual([damagedLines, reason], [0, undefined], file),
        failed: (error) => assert.ok(!this.hasRoom, error),
      },
      write: (fd, bytes) => {
        if (!this.hasRoom) throw new Error('ENOSPC')
        return writeSync(fd, Buffer.from(bytes))
      },
    })
    return new Limiter({ clock: () => this.nowMs, journal })
  }
}
