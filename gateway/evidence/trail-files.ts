import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { compressionOf, placeOf, plainPath, type Segment } from '../audit/segments/segment.ts'
import { segmentsFrom, segmentsOfTrail } from '../audit/segments/trail-segments.ts'

/** One trail: what one gateway has written, one open file after the other. */
export interface TrailFiles {
  /** Name of the open file, which may be missing: `data/audit.ndjson`. */
  readonly auditFile: string
  /** Oldest first. */
  readonly segments: readonly Segment[]
  /** All segments of the trail that lie there. */
  readonly isWhole: boolean
}

/** What a rotation puts behind the name of the audit file. */
const ROTATED = /(?:\.\d{8}T\d{9}Z|-\d{8,}(?:[-_.T]\d+)*|\.\d{1,9})$/

/** No records, and among what a shell makes of `audit.ndjson*`. */
const BESIDE = /\.(?:lock|shipped|clock)(?:\.tmp)?$/

/**
 * The trails that paths name. An audit file stands for itself and the segments that were rotated from it, a directory for
 * every trail in it; a rotated segment for itself only.
 *
 * @throws Error that names the path, when it cannot be read or holds no trail.
 */
export async function trailsOf(paths: readonly string[]): Promise<TrailFiles[]> {
  const named = new Map<string, { whole: boolean; segments: Set<string> }>()
  for (const path of paths.flatMap(filesAt).filter((file) => !BESIDE.test(file))) {
    const auditFile = auditFileOf(path)
    const trail = named.get(auditFile) ?? { whole: false, segments: new Set() }
    if (path === auditFile) trail.whole = true
    else trail.segments.add(path)
    named.set(auditFile, trail)
  }
  const trails: TrailFiles[] = []
  for (const [auditFile, { whole, segments }] of named) {
    const found = whole ? await segmentsOfTrail(auditFile) : await segmentsFrom([...segments])
    trails.push({ auditFile, segments: found, isWhole: whole })
  }
  return trails
}

/** Name of the open file of the trail that a file is of. */
function auditFileOf(path: string): string {
  if (placeOf(path) === undefined && compressionOf(path) === 'none') return path
  return join(dirname(path), basename(plainPath(path)).replace(ROTATED, ''))
}

function filesAt(path: string): string[] {
  let isDirectory: boolean
  try {
    isDirectory = statSync(path).isDirectory()
  } catch (error) {
    throw new Error(`${path} cannot be read: ${(error as Error).message}`)
  }
  if (!isDirectory) return [path]
  const files = readdirSync(path)
    .map((name) => join(path, name))
    .filter((file) => auditFileOf(file).endsWith('.ndjson') && statSync(file).isFile())
  if (files.length === 0)
    throw new Error(`${path} holds no audit trail: no file named *.ndjson, rotated or not`)
  return files
}
