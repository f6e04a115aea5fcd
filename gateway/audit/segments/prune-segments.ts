import { existsSync, readdirSync, rmdirSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { windowToMs } from '../../config/rules/window-rule.ts'
import type { AuditRetention } from '../../config/settings.ts'
import { syncDirectoryOf } from '../../storage/append-file.ts'
import { removeFile } from '../../storage/line-file.ts'
import { pruneRecord } from '../audit-records.ts'
import { readCheckpoint } from '../seals/checkpoint.ts'
import { firstUnsynced } from '../seals/late-tiles.ts'
import { firstTile, TILE_WIDTH, tilePath } from '../seals/tiles.ts'
import { WITNESSED_FILE } from '../witness/witnessed-checkpoint.ts'
import { firstLineOf, timeOf } from './read-segment.ts'
import { type LeafRange, SealedTree } from './sealed-tree.ts'
import { type ClosedSegment, closedSegments, segmentsOfTrail } from './trail-segments.ts'

interface PruneOptions {
  readonly auditFile: string
  readonly retention: AuditRetention
  readonly isSealed: boolean
  readonly nowMs: number
  readonly wallMs: number
  readonly needed: () => Promise<ReadonlySet<string>>
  /** See `Shipper.isThere`; undefined: nothing is shipped. */
  readonly isShipped: ((segment: ClosedSegment, leaves: number) => Promise<boolean>) | undefined
  readonly inUse: () => Promise<string>
  readonly record: (lines: readonly string[]) => Promise<void>
}

type Due = { readonly segment: ClosedSegment; readonly range: LeafRange | undefined; readonly line: string }

interface Pruned {
  readonly segments: readonly ClosedSegment[]
  readonly tiles: number
  readonly kept: { readonly segment: string; readonly why: string } | undefined
}

/**
 * Removes segments whose retention is over, oldest first, and their tiles. Before that it appends a line for each
 * (`record`), because a gap without such a line is a fault.
 * @throws Error that names the file
 */
export async function pruneSegments(options: PruneOptions): Promise<Pruned> {
  const { due, kept } = await dueSegments(options)
  await options.record(due.map(({ line }) => line))
  for (const { segment } of due) {
    removeFile(segment.path)
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
    if (segment.closedMs + windowToMs(retention.keep) > nowMs) break
    try {
      const range = await mayGo(segment, { next: closed[i + 1], before: due.at(-1)?.range }, options)
      if (typeof range === 'string') return { due, kept: { segment: basename(segment.path), why: range } }
      due.push({ segment, range, line: await recordOf(segment, range, wallMs) })
    } catch (error) {
      // The segments before this one can go. The next run throws the error.
      if (due.length > 0) break
      throw error
    }
  }
  return { due, kept: undefined }
}

/** @returns the leaves of the segment, if any; or a text that says why it must stay */
async function mayGo(
  segment: ClosedSegment,
  { next, before }: { readonly next: ClosedSegment | undefined; readonly before: LeafRange | undefined },
  { auditFile, retention, isSealed, needed, inUse, isShipped }: PruneOptions,
): Promise<LeafRange | undefined | string> {
  if (segment.inode === (await inUse())) return 'the gateway is still writing it'
  if ((await needed()).has(segment.path)) return 'a request that began in it or before it is still open'
  const tree = SealedTree.of(auditFile)
  if (!(isSealed && tree !== undefined) && !retention.unsealed)
    return 'nothing is sealed, and audit.retention.unsealed is not true'
  const range = await tree?.rangeOf(segment, 'beginning', before && before.last + 1)
  // The sealer needs the last leaf, so its segment stays.
  if (isSealed && tree !== undefined && (range === undefined || range.last + 1 >= tree.size))
    return 'what it holds now is not sealed'
  // Anybody can rename a file, so the order of names proves nothing. Tiles of kept lines must stay.
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

async function tilesBefore(auditFile: string, oldestLeaf: number | undefined): Promise<number> {
  const tree = SealedTree.of(auditFile)
  if (tree === undefined || oldestLeaf === undefined) return 0
  // Other programs may have closed segments between ours. The tiles of such segments must stay.
  const paths = new Set(closedSegments(auditFile).map(({ path }) => path))
  const all = (await segmentsOfTrail(auditFile)).slice(0, -1)
  return all.every(({ path }) => paths.has(path)) ? pruneTiles(tree.directory, oldestLeaf) : 0
}

const IN_A_DIRECTORY = 1000

/**
 * Removes full tiles that end before `firstLeaf` (C2SP tlog-tiles, "Pruning"). A witness gets no proof if the
 * last tree that it cosigned is smaller than both `firstLeaf` and the tree that the quorum cosigned.
 */
export function pruneTiles(directory: string, firstLeaf: number): number {
  const unsynced = firstUnsynced(directory)
  // Unsynced tiles stay, because a start after a crash looks for them.
  const synced = unsynced === undefined ? Number.POSITIVE_INFINITY : unsynced * TILE_WIDTH
  const bound = Math.min(firstLeaf, witnessedSize(directory), synced)
  let removed = 0
  for (const level of ['entries', ...levelsIn(directory)] as const) {
    const leavesInTile = TILE_WIDTH ** (level === 'entries' ? 1 : level + 1)
    const end = Math.floor(bound / leavesInTile)
    for (let index = firstTile(directory, level, end); index < end; index++) {
      const path = join(directory, tilePath(level, index))
      removeFile(path)
      rmSync(`${path}.p`, { recursive: true, force: true })
      removed++
      if ((index + 1) % IN_A_DIRECTORY === 0) removeEmpty(dirname(path))
    }
  }
  return removed
}

function levelsIn(directory: string): number[] {
  return readdirSync(join(directory, 'tile'))
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** Infinite without witnesses. */
function witnessedSize(directory: string): number {
  const file = join(directory, WITNESSED_FILE)
  return existsSync(file) ? readCheckpoint(file).size : Number.POSITIVE_INFINITY
}

function removeEmpty(directory: string): void {
  try {
    rmdirSync(directory)
  } catch {
    // A partial tile may be left.
  }
}
