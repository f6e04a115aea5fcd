import { renameSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { realPathOf, syncDirectoryOf } from '../../storage/append-file.ts'
import { startRecord } from '../audit-records.ts'
import { type ForeignWrite, foreignRecord } from '../seal-records.ts'
import { freePath } from '../segments/rotation.ts'
import type { TrailOptions } from '../trail-options.ts'
import { candidatesIn } from './rotated-file.ts'
import type { TrailFile } from './trail-file.ts'
import { STANDARD_OUTPUT, TrailSink } from './trail-sink.ts'

interface ForeignWritersOptions
  extends Pick<TrailOptions, 'file' | 'durability' | 'version' | 'onFault' | 'onForeign'> {
  readonly trailFile: TrailFile
  readonly now: () => number
}

/** Least time between new files, because a frequent writer would cause one at each of our writes. */
const BETWEEN_FILES_MS = 60_000
const ROTATION_MS = 60_000

/**
 * Notices foreign writes, and continues the trail in a new file that begins with AUDIT_START and AUDIT_FOREIGN. Foreign
 * bytes are set aside as a closed segment. For a minute after that, further ones are only reported.
 */
export class ForeignWriters {
  readonly #options: ForeignWritersOptions
  #path: string
  /** Our file after others renamed it, and when `find` first noticed that. */
  #renamed: { readonly inode: string; readonly atMs: number } | undefined
  #leftAtMs = Number.NEGATIVE_INFINITY
  /** Foreign bytes left in the file since the last `find`. */
  #untold: ForeignWrite | undefined

  constructor(options: ForeignWritersOptions) {
    const { file, trailFile } = options
    this.#options = options
    this.#path = file === STANDARD_OUTPUT ? file : realPathOf(file)
    trailFile.onForeign = (at, found) => {
      const reason = found > at ? 'grown' : found < at ? 'shortened' : 'changed'
      const what = { file: basename(file), inode: trailFile.present().inode, at, found, reason } as const
      if (!this.#hasJustLeft) this.#leave(what)
      else {
        const bytes = Math.abs(found - at)
        this.#untold = { ...what, ...this.#untold, found: (this.#untold?.found ?? at) + bytes }
      }
    }
  }

  get #hasJustLeft(): boolean {
    const sinceMs = this.#options.now() - this.#leftAtMs
    return sinceMs >= 0 && sinceMs < BETWEEN_FILES_MS
  }

  /** @param isRotation true: the caller begins a missing file itself */
  find(isRotation = false): void {
    const { trailFile, onFault, onForeign } = this.#options
    try {
      if (!this.#hasJustLeft) this.#findStranger(isRotation)
    } catch (error) {
      onFault(error as Error)
    }
    const error = trailFile.check()
    if (error !== undefined) onFault(error)
    trailFile.note()
    if (this.#untold !== undefined) onForeign?.(this.#untold)
    this.#untold = undefined
  }

  /** An empty or missing file may mean that others are rotating ours. They have a minute for that. */
  #findStranger(isRotation: boolean): void {
    const { file, trailFile, now } = this.#options
    if (file === STANDARD_OUTPUT) return
    const stats = statSync(file, { bigint: true, throwIfNoEntry: false })
    const inode = stats?.ino.toString() ?? ''
    const own = trailFile.present()
    if (inode === own.inode) {
      this.#path = realPathOf(file)
      this.#renamed = undefined
    } else if (stats?.isFile() === true && stats.size > 0n)
      this.#leave({ file: basename(file), inode, at: 0, found: Number(stats.size), reason: 'replaced' })
    else if (stats?.isFile() !== false && !trailFile.sink.isRemoved) {
      if (isRotation || this.#renamed?.inode !== own.inode || now() < this.#renamed.atMs)
        this.#renamed = { inode: own.inode, atMs: now() }
      if (now() - this.#renamed.atMs < ROTATION_MS) return
      const renamed = candidatesIn(dirname(this.#path)).get(own.inode)?.[0]?.path ?? file
      const bytes = { at: own.end, found: own.end }
      this.#leave({ file: basename(renamed), inode: own.inode, ...bytes, reason: 'renamed' })
    }
  }

  #leave(what: ForeignWrite): void {
    const { file, trailFile, durability, version, now, onFault, onForeign } = this.#options
    let named = what
    try {
      const { inode, open } = trailFile.present()
      const { next, aside } = beginAnew(file, { inode, path: this.#path }, now())
      if (durability === 'synced') syncDirectoryOf(file)
      named = { ...what, file: aside ?? what.file }
      const timestamp = new Date(now()).toISOString()
      const removed = trailFile.sink.isRemoved || undefined
      const facts = { timestamp, version, pid: process.pid, open, continues: inode, removed }
      trailFile.moveTo(next, [startRecord(facts), foreignRecord(timestamp, named)]).close()
      this.#leftAtMs = now()
    } catch (error) {
      onFault(error as Error)
    }
    onForeign?.(named)
  }
}

function beginAnew(
  file: string,
  own: { readonly inode: string; readonly path: string },
  nowMs: number,
): { readonly next: TrailSink; readonly aside: string | undefined } {
  const path = realPathOf(file)
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
  const isOwn = stats?.ino.toString() === own.inode
  let aside: string | undefined
  if (!isOwn && path !== own.path) {
    // The path is a link to a file that is not ours, so only the link is renamed.
    aside = `.${basename(file)}.link`
    renameSync(file, join(dirname(file), aside))
  } else if (isOwn || (stats?.size ?? 0n) > 0n) aside = setAside(path, nowMs)
  return { next: TrailSink.open(file), aside }
}

/** Renames the file as a rotation would. @returns the new name */
export function setAside(file: string, nowMs: number): string {
  const aside = freePath(realPathOf(file), nowMs)
  renameSync(realPathOf(file), aside)
  return basename(aside)
}
