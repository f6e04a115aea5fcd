import { lstatSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { realPathOf, unusable } from '../../storage/append-file.ts'
import { compressionOf, plainPath, type Segment, stampOf } from './segment.ts'

/** A segment that we have closed. Those that others name they also keep, compress and remove. */
export interface ClosedSegment extends Segment {
  /** When it was closed, by its name, milliseconds. */
  readonly closedMs: number
}

/**
 * The segments that the rotation of the gateway has closed, oldest first. Where one lies there compressed and not, only the
 * latter is listed.
 *
 * @throws Error that names the audit file, when its directory cannot be read.
 */
export function closedSegments(auditFile: string): ClosedSegment[] {
  const file = realPathOf(auditFile)
  const paths = namesBeside(file).filter(
    (name) => stampOf(name) !== undefined && name.startsWith(basename(file)),
  )
  const present = new Set(paths)
  const segments: ClosedSegment[] = []
  // A compressed name is the plain one with an ending, so names are in the order of time.
  for (const name of paths.toSorted()) {
    const path = join(dirname(file), name)
    if (plainPath(name) !== name && present.has(plainPath(name))) continue
    // A link is none of ours: what it leads to may be anything, also the trail itself.
    const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false })
    if (stats?.isFile() !== true) continue
    segments.push({
      path,
      compression: compressionOf(name),
      sizeBytes: Number(stats.size),
      inode: stats.ino.toString(),
      closedMs: stampOf(name) ?? 0,
    })
  }
  return segments
}

/** Names in the directory of a file. @throws Error that names the file. */
export function namesBeside(file: string): string[] {
  try {
    return readdirSync(dirname(file))
  } catch (error) {
    throw unusable(file, error)
  }
}
