import { existsSync, readdirSync, rmdirSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { AuditRetention } from '../../config/settings.ts'
import { syncDirectoryOf } from '../../storage/append-file.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { pruneRecord } from '../audit-records.ts'
import { parseCheckpoint } from '../seals/checkpoint.ts'
import { firstUnsynced } from '../seals/late-tiles.ts'
import { parseNote } from '../seals/signed-note.ts'
import { TILE_WIDTH, tilePath } from '../seals/tiles.ts'
import { WITNESSED_FILE } from '../witness/witnessed-checkpoint.ts'
import { firstLineOf, timeOf } from './read-segment.ts'
import { type LeafRange, SealedTree } from './sealed-tree.ts'
import { type ClosedSegment, closedSegments, segmentsOfTrail } from './trail-segments.ts'

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

/** Directories of tiles hold so many. */
const IN_A_DIRECTORY = 1000

/**
 * Removes the tiles that nobody needs for the leaves from `firstLeaf` on: full ones that end before it (C2SP tlog-tiles,
 * "Pruning"). Proofs and roots for later leaves and trees can still be made, and witnesses still be told how the log has grown,
 * but for one whose last checkpoint is older than the quorum's and than `firstLeaf`. What must wait goes in a later round.
 *
 * @returns how many tiles were removed. @throws Error of the system
 */
export function pruneTiles(directory: string, firstLeaf: number): number {
  const unsynced = firstUnsynced(directory)
  // A start after a crash looks for all of them from there on.
  const synced = unsynced === undefined ? Number.POSITIVE_INFINITY : unsynced * TILE_WIDTH
  const bound = Math.min(firstLeaf, witnessedSize(directory), synced)
  let removed = 0
  for (const level of ['entries', ...levelsIn(directory)] as const) {
    const leavesInTile = TILE_WIDTH ** (level === 'entries' ? 1 : level + 1)
    const end = Math.floor(bound / leavesInTile)
    for (let index = firstTile(directory, level, end); index < end; index++) {
      const path = join(directory, tilePath(level, index))
      rmSync(path, { force: true })
      rmSync(`${path}.p`, { recursive: true, force: true })
      removed++
      if ((index + 1) % IN_A_DIRECTORY === 0) removeEmpty(dirname(path))
    }
  }
  return removed
}

/** Tiles go in order, so that those that are left follow one another, whenever the process ends. */
function firstTile(directory: string, level: number | 'entries', end: number): number {
  let [low, high] = [0, end]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (existsSync(join(directory, tilePath(level, middle)))) high = middle
    else low = middle + 1
  }
  return low
}

function levelsIn(directory: string): number[] {
  return readdirSync(join(directory, 'tile'))
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** Without witnesses there is no bound, unless there were some: their last checkpoint is kept. */
function witnessedSize(directory: string): number {
  const file = join(directory, WITNESSED_FILE)
  return existsSync(file)
    ? parseCheckpoint(parseNote(readRegularFile(file)).text).size
    : Number.POSITIVE_INFINITY
}

function removeEmpty(directory: string): void {
  try {
    rmdirSync(directory)
  } catch {
    // A partial tile may be left.
  }
}
