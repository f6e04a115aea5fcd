import { fstatSync, readdirSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { windowToMs } from '../../config/rules/window-rule.ts'
import type { AuditSettings } from '../../config/settings.ts'
import { naming, realPathOf } from '../../storage/append-file.ts'
import { withFile } from '../../storage/line-file.ts'
import { readAt } from '../../storage/regular-file.ts'
import { RESPONSE_HEAD } from '../audit-records.ts'
import { HEAD_BYTES, linesIn, timeOf } from './read-segment.ts'
import { stampedPath, stampOf } from './segment.ts'

type RotationLimits = Pick<NonNullable<AuditSettings['rotation']>, 'maxBytes' | 'maxAge'>

interface RotationOptions {
  readonly file: string
  readonly trail: {
    /** Undefined when the trail may not be rotated. */
    readonly inode: string | undefined
    reopen(clockSetBackMs: number | undefined): void
  }
  readonly now: () => number
  onFault(error: Error): void
}

/** Searches of the trail tolerate set-backs of up to five minutes. */
const SET_BACK_MS = 60_000
const TAIL_BYTES = 128 * 1024

/**
 * Begins a new segment when the file is large or old enough, or the clock was set back. Lines written after a set-back
 * of a minute or more, but before `maintain` notices it, are at the end of the old segment.
 */
export class Rotation {
  readonly #options: RotationOptions
  /** Inode of the file seen last; its age counts from `#sinceMs`. */
  #inode: string | undefined
  #sinceMs = 0
  #latestMs = 0
  #setBackMs: number | undefined
  #renamed = false

  constructor(options: RotationOptions) {
    this.#options = options
  }

  maintain(limits: RotationLimits | undefined): void {
    const { trail, onFault } = this.#options
    const { inode } = trail
    if (inode === undefined) return
    try {
      if (inode !== this.#inode) this.#begin(inode)
      if (this.#wasSetBack() || (limits !== undefined && this.#isDue(limits))) this.#rename()
      // Tries again when the new file could not be opened.
      if (this.#renamed) trail.reopen(this.#setBackMs)
    } catch (error) {
      onFault(error as Error)
    }
  }

  #begin(inode: string): void {
    const isOurs = this.#inode !== undefined
    this.#inode = inode
    this.#renamed = false
    this.#setBackMs = undefined
    const now = this.#options.now()
    const { firstMs = now, latestMs = now } = this.#sizeBytes === 0 ? {} : timesIn(this.#options.file)
    this.#sinceMs = Math.min(now, firstMs)
    this.#latestMs = isOurs ? now : latestMs
  }

  #wasSetBack(): boolean {
    const now = this.#options.now()
    const setBackMs = this.#latestMs - now
    this.#latestMs = Math.max(this.#latestMs, now)
    if (setBackMs < SET_BACK_MS || this.#sizeBytes === 0) return false
    // A set-back counts once, even if the file cannot be renamed.
    this.#latestMs = now
    this.#setBackMs = Math.max(setBackMs, this.#setBackMs ?? 0)
    return true
  }

  #isDue({ maxBytes = Infinity, maxAge }: RotationLimits): boolean {
    const now = this.#options.now()
    this.#sinceMs = Math.min(this.#sinceMs, now)
    const isOld = maxAge !== undefined && now - this.#sinceMs >= windowToMs(maxAge)
    const bytes = this.#sizeBytes
    return bytes > 0 && (isOld || bytes >= maxBytes)
  }

  /** 0 when the file was renamed, by us or by somebody who will send SIGHUP. */
  get #sizeBytes(): number {
    const stats = statSync(this.#options.file, { bigint: true, throwIfNoEntry: false })
    return stats?.isFile() && stats.ino.toString() === this.#inode ? Number(stats.size) : 0
  }

  #rename(): void {
    const file = realPathOf(this.#options.file)
    naming(file, () => renameSync(file, freePath(file, this.#options.now())))
    this.#renamed = true
  }
}

/** Reads the first and the latest time. Near the end responses do not count: they have the time of their request. */
function timesIn(file: string): {
  readonly firstMs?: number | undefined
  readonly latestMs?: number | undefined
} {
  try {
    return withFile(file, 'r', (fd) => {
      const tail = readAt(fd, Math.max(0, fstatSync(fd).size - TAIL_BYTES), TAIL_BYTES)
      const times = [...linesIn(tail)].flatMap((line) => (isResponse(line) ? [] : (timeOf(line) ?? [])))
      const latestMs = times.length === 0 ? undefined : Math.max(...times)
      return { firstMs: timeOf(readAt(fd, 0, HEAD_BYTES)), latestMs }
    })
  } catch {
    return {}
  }
}

function isResponse(line: Buffer): boolean {
  return line.toString('latin1', 0, RESPONSE_HEAD.length) === RESPONSE_HEAD
}

/** A name later than any segment's, even if the clock went backwards. */
export function freePath(file: string, nowMs: number): string {
  let lastMs = 0
  for (const name of readdirSync(dirname(file))) lastMs = Math.max(lastMs, stampOf(file, name) ?? 0)
  return stampedPath(file, Math.max(nowMs, lastMs + 1))
}
