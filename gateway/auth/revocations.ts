import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { quote } from './quote.ts'
import { appendLines, formatRevocation, readRevocations, replaceFile } from './revocations-file.ts'
import { isVisibleId } from './visible-id.ts'

export interface RevocationsOptions {
  /** Made when it is not there. */
  readonly dataDir: string
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Told of anything wrong with the file; what was revoked stays revoked in memory. */
  readonly onFault: (cause: string) => void
}

/** No token lives longer than 24 h; the minute covers an issuer whose clock runs ahead. */
const REMEMBERED_MS = (24 * 60 + 1) * 60_000
// More than are added by one call, so that old ones are gone sooner than new ones come.
const SWEPT_AT_ONCE = 8
const APPENDED_AT_ONCE = 1_000

/**
 * Sessions that ended before their tokens did. Each is remembered for as long as one of its tokens can live, in memory
 * and in `<dataDir>/revocations.ndjson`, so that neither a restart nor `kill -9` gives it back. After a day the file
 * becomes `revocations.old.ndjson` in place of the one before, so the disk holds two days of them at most.
 */
export class Revocations {
  readonly #options: RevocationsOptions
  readonly #file: string
  readonly #oldFile: string
  /** Session id to the time of its revocation, oldest first. */
  readonly #revoked = new Map<string, number>()
  /** Those of them that are not in the file yet. */
  readonly #unwritten = new Map<string, number>()
  /** Whether the file may end in the middle of a line. */
  #torn = false
  #fileSinceMs: number

  /** @throws Error when there is a file that cannot be read: to go on would let revoked sessions in again */
  constructor(options: RevocationsOptions) {
    this.#options = options
    this.#file = join(options.dataDir, 'revocations.ndjson')
    this.#oldFile = join(options.dataDir, 'revocations.old.ndjson')
    this.#fileSinceMs = options.clock()
    this.#load(this.#oldFile)
    this.#load(this.#file)
    this.#compact()
  }

  /** Sessions remembered. */
  get size(): number {
    return this.#revoked.size
  }

  /** Whether the session has ended. No session, no revocation. */
  isRevoked(sid: string | undefined): boolean {
    return sid !== undefined && this.#revoked.has(sid)
  }

  /**
   * Ends a session: from now on in memory, and in the file by the time this returns. When the disk refuses, the line is
   * tried again with the next revocation. An id that no token can carry is reported and otherwise ignored. Never throws.
   */
  revoke(sid: string): void {
    if (!isVisibleId(sid)) {
      this.#options.onFault(`a session cannot be revoked: ${quote(sid)} is no session id`)
      return
    }
    const nowMs = this.#options.clock()
    remember(this.#revoked, sid, nowMs)
    remember(this.#unwritten, sid, nowMs)
    this.#sweep(nowMs - REMEMBERED_MS)
    this.#attempt('start a new file', () => this.#turnOver(nowMs))
    this.#attempt('append', () => this.#append())
  }

  #append(): void {
    while (this.#unwritten.size > 0) {
      const batch = oldest(this.#unwritten, APPENDED_AT_ONCE)
      const lines = batch.map(([sid, atMs]) => formatRevocation(sid, atMs)).join('')
      const text = this.#torn ? `\n${lines}` : lines
      this.#torn = true
      appendLines(this.#file, text)
      this.#torn = false
      for (const [sid] of batch) this.#unwritten.delete(sid)
    }
  }

  #sweep(untilMs: number): void {
    for (const [sid, atMs] of oldest(this.#revoked, SWEPT_AT_ONCE)) {
      if (atMs > untilMs) return
      this.#revoked.delete(sid)
      this.#unwritten.delete(sid)
    }
  }

  /** By now everything in the file before this one is forgotten, so this one may take its place. */
  #turnOver(nowMs: number): void {
    if (nowMs - this.#fileSinceMs < REMEMBERED_MS) return
    renameSync(this.#file, this.#oldFile)
    this.#fileSinceMs = nowMs
    this.#torn = false
  }

  #load(file: string): void {
    const { revocations, faults, torn } = readRevocations(file)
    const nowMs = this.#options.clock()
    for (const { sid, revokedAtMs } of revocations) {
      // A time to come, from a clock since set back, must not be remembered for longer than any other.
      const atMs = Math.min(revokedAtMs, nowMs)
      if (atMs > nowMs - REMEMBERED_MS) remember(this.#revoked, sid, atMs)
    }
    for (const fault of faults) this.#options.onFault(`${file}: ${fault}`)
    this.#torn = torn
  }

  #compact(): void {
    this.#attempt('compact', () => {
      mkdirSync(this.#options.dataDir, { recursive: true })
      const lines = [...this.#revoked].map(([sid, atMs]) => formatRevocation(sid, atMs))
      replaceFile(this.#file, lines.join(''))
      this.#torn = false
      rmSync(this.#oldFile, { force: true })
    })
  }

  #attempt(what: string, work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#options.onFault(`${this.#file}: cannot ${what}: ${String(error)}`)
    }
  }
}

/** Sets it as the newest. */
function remember(revocations: Map<string, number>, sid: string, atMs: number): void {
  revocations.delete(sid)
  revocations.set(sid, atMs)
}

function oldest(revocations: ReadonlyMap<string, number>, count: number): [string, number][] {
  const entries: [string, number][] = []
  for (const entry of revocations) {
    if (entries.length === count) break
    entries.push(entry)
  }
  return entries
}
