import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { RECORD_HEAD } from '../audit/audit-records.ts'
import { checkpointFile, logDirectory } from '../audit/seals/tiles.ts'
import { firstLineOf } from '../audit/segments/read-segment.ts'
import { compressionOf, placeOf, plainPath, type Segment } from '../audit/segments/segment.ts'
import { segmentsFrom, segmentsOfTrail } from '../audit/segments/trail-segments.ts'

export interface TrailFiles {
  /** Name of the open file, which may be missing. */
  readonly auditFile: string
  /** Oldest first. */
  readonly segments: readonly Segment[]
  /** True when the audit file was named. */
  readonly isWhole: boolean
  /** True when every segment was named: the first line must then be the first of the trail. */
  readonly beginsWhole: boolean
}

interface NamedFile {
  readonly path: string
  readonly inDirectory: boolean
}

const ROTATED = /(?:\.\d{8}T\d{9}Z|-\d{8,}(?:[-_.T]\d+)*|\.\d{1,9})$/

/** Files without records that a shell finds by `audit.ndjson*`. */
const BESIDE = /\.(?:(?:segments\.)?lock|(?:shipped|clock)(?:\.tmp)?|zst\.tmp)$/

/**
 * Finds the trails that paths name. An audit file stands for all its segments, a directory for each trail in it, a
 * rotated segment for itself.
 * @throws Error that names the path
 */
export async function trailsOf(paths: readonly string[]): Promise<TrailFiles[]> {
  const named = new Map<string, { whole: boolean; inDirectory: boolean; segments: Set<string> }>()
  const beside: string[] = []
  const files: NamedFile[] = []
  for (const path of paths) files.push(...(await filesAt(path)))
  for (const { path, inDirectory } of files) {
    if (BESIDE.test(path)) {
      beside.push(path)
      continue
    }
    const auditFile = auditFileOf(path)
    const trail = named.get(auditFile) ?? { whole: false, inDirectory: false, segments: new Set() }
    if (path === auditFile) trail.whole = true
    else trail.segments.add(path)
    if (inDirectory) trail.inDirectory = true
    named.set(auditFile, trail)
  }
  // Such a file belongs to a trail of which no other file is left.
  const alone = beside.find((path) => !named.has(auditFileOf(path.replace(BESIDE, ''))))
  if (alone !== undefined)
    throw new Error(`${alone} names no audit trail: its audit file and all rotated files are missing`)
  const trails: TrailFiles[] = []
  for (const [auditFile, { whole, inDirectory, segments }] of named) {
    const found = whole ? await segmentsOfTrail(auditFile) : await segmentsFrom([...segments])
    const beginsWhole = whole || inDirectory || (await isAllOf(auditFile, found))
    trails.push({ auditFile, segments: found, isWhole: whole, beginsWhole })
  }
  return trails
}

async function isAllOf(auditFile: string, given: readonly Segment[]): Promise<boolean> {
  const inodes = new Set(given.map(({ inode }) => inode))
  return (await segmentsOfTrail(auditFile)).every(({ inode }) => inodes.has(inode))
}

function auditFileOf(path: string): string {
  if (placeOf(path) === undefined && compressionOf(path) === 'none') return path
  return join(dirname(path), basename(plainPath(path)).replace(ROTATED, ''))
}

async function filesAt(path: string): Promise<readonly NamedFile[]> {
  let isDirectory: boolean
  try {
    isDirectory = statSync(path).isDirectory()
  } catch (error) {
    throw new Error(`${path} cannot be read: ${(error as Error).message}`)
  }
  return isDirectory ? trailsIn(path) : [{ path, inDirectory: false }]
}

async function trailsIn(directory: string): Promise<NamedFile[]> {
  const names = readdirSync(directory)
  const families = Map.groupBy(
    names
      .map((name) => join(directory, name))
      .filter(
        (path) =>
          auditFileOf(path).endsWith('.ndjson') && statSync(path, { throwIfNoEntry: false })?.isFile(),
      ),
    auditFileOf,
  )
  // A log without files tells of a trail whose files are gone.
  for (const name of names.filter((one) => one.endsWith('-log'))) {
    const file = join(directory, name.slice(0, -'-log'.length))
    const isLog = existsSync(checkpointFile(join(directory, name))) && !existsSync(file)
    if (isLog && !families.has(`${file}.ndjson`)) families.set(`${file}.ndjson`, [])
  }
  const found: NamedFile[] = []
  for (const [auditFile, paths] of families) {
    if (!existsSync(checkpointFile(logDirectory(auditFile))) && !(await hasRecords(paths))) continue
    const files = paths.length === 0 ? [auditFile] : paths
    found.push(...files.map((path) => ({ path, inDirectory: true })))
  }
  if (found.length === 0)
    throw new Error(`${directory} holds no audit trail: no file named *.ndjson, rotated or not, with records`)
  return found
}

/** True also if a file cannot be read: the reader then names it. */
async function hasRecords(paths: readonly string[]): Promise<boolean> {
  for (const path of paths) {
    try {
      const line = await firstLineOf({ path, compression: compressionOf(path) })
      if (line?.toString().startsWith(RECORD_HEAD)) return true
    } catch {
      return true
    }
  }
  return false
}
