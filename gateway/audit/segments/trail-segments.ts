import { lstatSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { naming, realPathOf, unusable } from '../../storage/append-file.ts'
import { regularStats } from '../../storage/regular-file.ts'
import { RECORD_HEAD } from '../audit-records.ts'
import { candidatesIn } from '../file/rotated-file.ts'
import { firstLineOf, timeOf } from './read-segment.ts'
import { compressionOf, type NamePlace, placeOf, plainPath, type Segment, stampOf } from './segment.ts'

interface Headed extends Segment {
  readonly place: NamePlace | undefined
  readonly timeMs: number
  readonly continues: string | undefined
  readonly isTrail: boolean
  readonly isLink: boolean
  readonly file: string
}

const MAX_TRIES = 9

/**
 * Lists the segments of a trail, oldest first, the open one last: files named after the audit file, and those that an
 * AUDIT_START names by inode. A compressed copy beside its segment does not count, as it may not be whole.
 * @throws Error that names the file or directory
 */
export async function segmentsOfTrail(auditFile: string): Promise<Segment[]> {
  const open = realPathOf(auditFile)
  for (let tries = 1; ; tries++) {
    const names = namesBeside(open)
    try {
      return await listed(open, names)
    } catch (error) {
      // The gateway may have changed the directory meanwhile.
      if (tries === MAX_TRIES || names.join() === namesBeside(open).join()) throw error
    }
  }
}

async function listed(open: string, names: readonly string[]): Promise<Segment[]> {
  const files = names.map((name) => join(dirname(open), name))
  const named = new Set(files.filter((path) => path === open || openNamesOf(path).includes(basename(open))))
  const found = await headed(withoutCopies(named))
  const inodes = new Set(found.map(({ inode }) => inode))
  const missing = new Set(
    found.flatMap(({ continues }) => continues ?? []).filter((inode) => !inodes.has(inode)),
  )
  if (missing.size === 0) return inOrder(found)
  // A lock must not be opened, because closing it would release it (POSIX `fcntl`).
  const candidates = candidatesIn(dirname(open))
  const others = [...missing]
    .flatMap((inode) => candidates.get(inode)?.map(({ path }) => path) ?? [])
    .filter((path) => !named.has(path))
  // The inode of a removed segment may now belong to another file.
  return inOrder([...found, ...(await headed(others)).filter(({ isTrail }) => isTrail)])
}

/** Lists files, oldest first. @throws Error that names the file */
export async function segmentsFrom(paths: readonly string[]): Promise<Segment[]> {
  return inOrder(await headed(withoutCopies(new Set(paths))))
}

/** A clock can go backwards, so files of one family keep the order of their names. */
function inOrder(found: readonly Headed[]): Segment[] {
  const segments = withoutAliases(found)
  const byTime = segments.toSorted((a, b) => a.timeMs - b.timeMs || compareText(a.path, b.path))
  const byRank = (a: Headed, b: Headed) => compareText(a.place?.rank ?? '', b.place?.rank ?? '')
  const families = new Map(
    [...Map.groupBy(byTime, ({ place }) => place?.family)].map(([family, members]) => [
      family,
      (family === undefined ? members : members.toSorted(byRank)).values(),
    ]),
  )
  const sorted = byTime.map((one) => families.get(one.place?.family)?.next().value ?? one)
  const openNames = new Set(segments.flatMap(({ path }) => openNamesOf(path)))
  const isOpen = ({ path }: Segment) => openNames.has(basename(path))
  return [...sorted.filter((one) => !isOpen(one)), ...sorted.filter(isOpen)].map(asSegment)
}

function asSegment({ path, compression, sizeBytes, inode, remark }: Headed): Segment {
  return { path, compression, sizeBytes, inode, ...(remark !== undefined && { remark }) }
}

async function headed(paths: readonly string[]): Promise<Headed[]> {
  const segments: Headed[] = []
  for (const path of paths) {
    const stats = regularStats(path)
    if (stats === undefined) throw unusable(path, 'it is no regular file, or a link that cannot be followed')
    const compression = compressionOf(path)
    const inode = stats.ino.toString()
    const line = await firstLineOf({ path, compression, inode })
    const text = line?.toString()
    segments.push({
      path,
      compression,
      sizeBytes: Number(stats.size),
      inode,
      place: placeOf(path),
      timeMs: (line && timeOf(line)) ?? Number.MAX_SAFE_INTEGER,
      continues: text && /,"continues":"(\d+)"/.exec(text)?.[1],
      isTrail: text === undefined || text.startsWith(RECORD_HEAD),
      isLink: lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true,
      file: `${stats.dev}:${inode}`,
    })
  }
  return segments
}

/** Lists each file once: under its own name rather than a link's, as the open file rather than a segment. */
function withoutAliases(segments: readonly Headed[]): Headed[] {
  const rankOf = ({ isLink, place }: Headed) => (isLink ? 2 : 0) + (place === undefined ? 0 : 1)
  return [...Map.groupBy(segments, ({ file }) => file).values()].map((names) => {
    const [own = names[0] as Headed, ...others] = names.toSorted((a, b) => rankOf(a) - rankOf(b))
    if (others.length > 0)
      return {
        ...own,
        remark: `is the same file as ${others.map(({ path }) => path).join(', ')}: it is read once`,
      }
    return own.isLink ? { ...own, remark: 'is a symbolic link' } : own
  })
}

function withoutCopies(paths: ReadonlySet<string>): string[] {
  return [...paths].filter((path) => plainPath(path) === path || !paths.has(plainPath(path)))
}

/** Names of audit files that a rotation may have renamed to `path`. */
function openNamesOf(path: string): string[] {
  const name = basename(path)
  return [...name.matchAll(/[.-]\d/g)].flatMap(({ index }) =>
    placeOf(name.slice(index)) === undefined ? [] : name.slice(0, index),
  )
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

/** A segment closed by the gateway. Other programs look after their own. */
export interface ClosedSegment extends Segment {
  readonly closedMs: number
}

/** Lists closed segments, oldest first, without copies. @throws Error that names the audit file */
export function closedSegments(auditFile: string): ClosedSegment[] {
  const file = realPathOf(auditFile)
  const paths = namesBeside(file).filter((name) => stampOf(file, name) !== undefined)
  const present = new Set(paths)
  const segments: ClosedSegment[] = []
  // A compressed name sorts like the plain one.
  for (const name of paths.toSorted()) {
    const path = join(dirname(file), name)
    if (plainPath(name) !== name && present.has(plainPath(name))) continue
    // A link may lead anywhere.
    const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false })
    if (stats?.isFile() !== true) continue
    segments.push({
      path,
      compression: compressionOf(name),
      sizeBytes: Number(stats.size),
      inode: stats.ino.toString(),
      closedMs: stampOf(file, name) ?? 0,
    })
  }
  return segments
}

export function namesBeside(file: string): string[] {
  return naming(file, () => readdirSync(dirname(file)))
}
