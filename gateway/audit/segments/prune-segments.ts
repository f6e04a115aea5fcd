import { rmSync } from 'node:fs'
import { basename } from 'node:path'
import type { AuditRetention } from '../../config/settings.ts'
import { syncDirectoryOf } from '../../storage/append-file.ts'
import { pruneRecord } from '../audit-records.ts'
import { type ClosedSegment, closedSegments } from './closed-segments.ts'
import { pruneTiles } from './prune-tiles.ts'
import { firstLineOf, timeOf } from './read-segment.ts'
import { type LeafRange, SealedTree } from './sealed-tree.ts'
import { segmentsOfTrail } from './trail-segments.ts'

interface PruneOptions {
  readonly auditFile: string
  readonly retention: AuditRetention
  /** The gateway seals the trail. */
  readonly isSealed: boolean
  /** Believed enough for what cannot be undone. */
  readonly nowMs: number
  /** By the clock of the machine, which all records bear. */
  readonly wallMs: number
  /** Paths of the segments that a start would need to find open requests. */
  readonly needed: () => Promise<ReadonlySet<string>>
  /**
   * Whether the copy of a segment is where it was shipped to, now, with a checkpoint over so many leaves; undefined: none is
   * shipped.
   */
  readonly isShipped: ((segment: ClosedSegment, leaves: number) => Promise<boolean>) | undefined
  /** Inode of the file that is written, which may have been renamed already. */
  readonly inUse: () => Promise<string>
  /** Appends lines to the trail for good; rejects when they may not be there. */
  readonly record: (lines: readonly string[]) => Promise<void>
}

/** A segment that may go, with its leaves and the line that names it. */
interface Due {
  readonly segment: ClosedSegment
  readonly range: LeafRange | undefined
  readonly line: string
}

/** What a run has done, and why it has stopped before a segment that is due. */
export interface Pruned {
  readonly segments: readonly ClosedSegment[]
  readonly tiles: number
  readonly kept: { readonly segment: string; readonly why: string } | undefined
}

/**
 * Removes segments whose retention is over, oldest first and none out of turn, and the
 * tiles that only they needed. Each is named in the trail before it goes, in a line that no power cut can take, so that a gap in
 * the trail that no record names is always a fault. All are named together, because each wait for a seal takes a second.
 *
 * Killed in between, the next run goes on; a segment may then be named twice.
 *
 * @throws Error that names the file, when one cannot be read or removed.
 */
export async function pruneSegments(options: PruneOptions): Promise<Pruned> {
  const { due, kept } = await dueSegments(options)
  await options.record(due.map(({ line }) => line))
  for (const { segment } of due) {
    rmSync(segment.path)
    syncDirectoryOf(segment.path)
  }
  const range = due.at(-1)?.range
  return {
    segments: due.map(({ segment }) => segment),
    tiles: await tilesBefore(options.auditFile, range && range.last + 1),
    kept,
  }
}

async function dueSegments(
  options: PruneOptions,
): Promise<Pick<Pruned, 'kept'> & { readonly due: readonly Due[] }> {
  const { auditFile, retention, nowMs, wallMs } = options
  const due: Due[] = []
  const closed = closedSegments(auditFile)
  for (const [i, segment] of closed.entries()) {
    if (segment.closedMs + retention.keepMs > nowMs) break
    try {
      const range = await mayGo(segment, closed[i + 1], options)
      if (typeof range === 'string') return { due, kept: { segment: basename(segment.path), why: range } }
      due.push({ segment, range, line: await recordOf(segment, range, wallMs) })
    } catch (error) {
      // The next run says so, when those before it are gone.
      if (due.length > 0) break
      throw error
    }
  }
  return { due, kept: undefined }
}

/** @returns the leaves of the segment; undefined when it has none; a text that says why it must stay. */
async function mayGo(
  segment: ClosedSegment,
  next: ClosedSegment | undefined,
  { auditFile, retention, isSealed, needed, inUse, isShipped }: PruneOptions,
): Promise<LeafRange | undefined | string> {
  if (segment.inode === (await inUse())) return 'it is still written'
  if ((await needed()).has(segment.path)) return 'a request that began in it or before it is still open'
  const tree = SealedTree.of(auditFile)
  if (!(isSealed && tree !== undefined) && !retention.unsealed)
    return 'nothing is sealed, and audit.retention does not allow that'
  const range = await tree?.rangeOf(segment, 'beginning')
  // The sealer begins where it finds the last leaf of its tree. A log of before, without a sealer, only tells the leaves.
  if (isSealed && tree !== undefined && (range === undefined || range.last + 1 >= tree.size))
    return 'it is not sealed as it stands'
  // Names can be given by anybody; tiles of lines that are kept must not go.
  if (range !== undefined && next !== undefined && tree?.hasBefore(range.last + 1, await firstLineOf(next)))
    return `its lines come after those of ${basename(next.path)}, in the log`
  if (isShipped !== undefined && !(await isShipped(segment, range ? range.last + 1 : 0)))
    return 'it is not shipped'
  return range
}

async function recordOf(
  segment: ClosedSegment,
  range: LeafRange | undefined,
  wallMs: number,
): Promise<string> {
  const line = await firstLineOf(segment)
  const fromMs = line && timeOf(line)
  return pruneRecord({
    timestamp: new Date(wallMs).toISOString(),
    segment: basename(segment.path),
    ...range,
    from: fromMs === undefined ? undefined : new Date(fromMs).toISOString(),
    until: new Date(segment.closedMs).toISOString(),
  })
}

/** @param oldestLeaf of the trail, if segments went in this run. */
async function tilesBefore(auditFile: string, oldestLeaf: number | undefined): Promise<number> {
  const tree = SealedTree.of(auditFile)
  if (tree === undefined || oldestLeaf === undefined) return 0
  // What others have rotated and still keep stands before ours, or among them.
  const paths = new Set(closedSegments(auditFile).map(({ path }) => path))
  const all = (await segmentsOfTrail(auditFile)).slice(0, -1)
  return all.every(({ path }) => paths.has(path)) ? pruneTiles(tree.directory, oldestLeaf) : 0
}
