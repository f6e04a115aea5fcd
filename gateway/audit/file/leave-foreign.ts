import { renameSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { realPathOf } from '../../storage/append-file.ts'
import { freePath } from '../segments/rotation.ts'
import { TrailSink } from './trail-sink.ts'

/** A file that others have written to, by the name that it has now. */
interface SetAside {
  readonly file: string
  readonly inode: string
  readonly sizeBytes: number
}

/**
 * What stands in the place of the trail's file, and is not it: one that others have put there. An empty file, or none, is a
 * rotation under way.
 */
export function strangerAt(file: string, inode: string): SetAside | undefined {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false })
  if (stats?.isFile() !== true || stats.size === 0n || stats.ino.toString() === inode) return undefined
  return { file: basename(realPathOf(file)), inode: stats.ino.toString(), sizeBytes: Number(stats.size) }
}

/**
 * Begins a new file in the place of one that is not to be written any more: renames that to a name of a closed segment.
 *
 * @returns the new file, and the new name of the other, if it was there. @throws Error of the system
 */
export function beginAnew(file: string, inode: string, nowMs: number): { next: TrailSink; aside: string | undefined } {
  const path = realPathOf(file)
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
  let aside: string | undefined
  if (stats !== undefined && (stats.size > 0n || stats.ino.toString() === inode)) {
    aside = freePath(path, nowMs)
    renameSync(path, aside)
  }
  return { next: TrailSink.open(file), aside: aside === undefined ? undefined : basename(aside) }
}
