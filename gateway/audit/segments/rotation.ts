import { closeSync, openSync, readdirSync, readSync, renameSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { AuditRotation } from '../../config/settings.ts'
import { realPathOf, unusable } from '../../storage/append-file.ts'
import { HEAD_BYTES, timeOf } from './read-segment.ts'
import { stampedPath, stampOf } from './segment.ts'

type RotationLimits = Pick<AuditRotation, 'maxBytes' | 'maxAgeMs'>

interface RotationOptions {
  readonly file: string
  readonly trail: {
    /** Of the file in use; undefined when this thread may not rotate it. */
    readonly inode: string | undefined
    reopen(): void
  }
  /** Milliseconds since the epoch. */
  readonly now: () => number
  onFault(error: Error): void
}

/** Begins a new segment when the audit file is large or old enough: renames it, and has the trail go on in a new file. */
export class Rotation {
  readonly #options: RotationOptions
  /** Of the file that was seen last, and since when it has been written. */
  #inode: string | undefined
  #sinceMs = 0
  /** The file was renamed, and the trail has not gone on in a new one yet. */
  #renamed = false

  constructor(options: RotationOptions) {
    this.#options = options
  }

  /** To be called once a second. */
  maintain(limits: RotationLimits | undefined): void {
    const { trail, onFault } = this.#options
    const { inode } = trail
    if (inode === undefined) return
    try {
      if (inode !== this.#inode) this.#begin(inode)
      if (limits !== undefined && this.#isDue(limits)) this.#rename()
      // Again, if the new file could not be opened the last time: for want of room, or of descriptors.
      if (this.#renamed) trail.reopen()
    } catch (error) {
      onFault(error as Error)
    }
  }

  #begin(inode: string): void {
    this.#inode = inode
    this.#renamed = false
    const now = this.#options.now()
    this.#sinceMs = Math.min(now, beginningOf(this.#options.file) ?? now)
  }

  #isDue({ maxBytes = Infinity, maxAgeMs = Infinity }: RotationLimits): boolean {
    const { file, now } = this.#options
    const stats = statSync(file, { bigint: true, throwIfNoEntry: false })
    // Renamed by us or by somebody else, who will send SIGHUP.
    if (stats === undefined || stats.ino.toString() !== this.#inode || !stats.isFile()) return false
    const ageMs = now() - this.#sinceMs
    // The clock went backwards.
    if (ageMs < 0) this.#sinceMs = now()
    return stats.size > 0n && (stats.size >= maxBytes || ageMs >= maxAgeMs)
  }

  #rename(): void {
    const file = realPathOf(this.#options.file)
    try {
      renameSync(file, freePath(file, this.#options.now()))
    } catch (error) {
      throw unusable(file, error)
    }
    this.#renamed = true
  }
}

/** Time of the first line; undefined when it has none. */
function beginningOf(file: string): number | undefined {
  const head = Buffer.alloc(HEAD_BYTES)
  let fd: number | undefined
  try {
    fd = openSync(file, 'r')
    return timeOf(head.subarray(0, readSync(fd, head, 0, head.length, 0)))
  } catch {
    return undefined
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** A name that is later than those of all segments that lie there, also when the clock went backwards. */
function freePath(file: string, nowMs: number): string {
  const base = basename(file)
  const names = readdirSync(dirname(file)).filter((name) => name.startsWith(base))
  const lastMs = Math.max(0, ...names.flatMap((name) => stampOf(name) ?? []))
  return stampedPath(file, Math.max(nowMs, lastMs + 1))
}
