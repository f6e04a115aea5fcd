import { rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { AuditRetention, Settings } from '../../config/settings.ts'
import { realPathOf } from '../../storage/append-file.ts'
import { type ClosedSegment, closedSegments, namesBeside } from './closed-segments.ts'
import { compressSegment } from './compress-segment.ts'
import { pruneSegments } from './prune-segments.ts'
import { SealedTree } from './sealed-tree.ts'
import { stampOf } from './segment.ts'
import { ShipDirectory } from './ship-directory.ts'
import type { ShipTarget } from './ship-target.ts'
import { Shipper } from './shipper.ts'

/** What is to be done with closed segments, as gateway.json says. */
export type AuditKeeping = Pick<Settings, 'auditFile' | 'auditRotation' | 'auditRetention' | 'auditShip'>

export type KeeperTask = 'compress' | 'ship' | 'prune'

/** What becomes of the closed segments, told to the log and the metrics. */
export interface KeeperReports {
  /** Something that an operator may want to know. */
  info(fields: object, message: string): void
  /** A task could not be done for a segment, and is tried again. */
  failed(task: KeeperTask, cause: string): void
  /** A task is done for a segment. */
  done(task: KeeperTask): void
  /** How many segments are not shipped, and when the oldest of them was closed, milliseconds. */
  unshipped(count: number, oldestMs: number | undefined): void
}

export interface KeeperParts {
  readonly reports: KeeperReports
  readonly now: () => number
  /** Paths of the segments that a start would need to find open requests. */
  readonly needed: () => ReadonlySet<string>
  /** Inode of the file in use, which may have been renamed already. */
  readonly inUse: () => string
  /** Appends a line to the trail; rejects when it is not there. */
  readonly record: (line: string) => Promise<void>
}

/** A task that failed for a segment waits so long, in milliseconds of the steady clock. */
const RETRY_MS = 300_000
/** The same for a shipment, from the first failure in a row to the last. */
const SHIP_RETRY_MS = [1000, 5000, 30_000, 120_000]
/** How often the log is shipped while no segment is closed. */
const TREE_MS = 900_000

/**
 * Looks after the segments that the rotation has closed: compresses them, ships them, and removes those whose retention is
 * over. For one process at a time, off the thread that serves.
 */
export class SegmentKeeper {
  readonly #parts: KeeperParts
  /** When a task is tried again, by task and path. */
  readonly #retryAtMs = new Map<string, number>()
  #shipper: Shipper | undefined
  #shipFailures = 0
  #treeShippedMs = Number.NEGATIVE_INFINITY

  constructor(parts: KeeperParts) {
    this.#parts = parts
  }

  /** One round over all segments. Does not reject: faults are reported. */
  async round(keeping: AuditKeeping): Promise<void> {
    const { auditFile, auditRotation, auditRetention: retention } = keeping
    if (auditRotation?.compress === 'zstd') {
      for (const segment of this.#listed(auditFile)) {
        if (segment.compression === 'none') {
          await this.#attempt('compress', segment.path, () => this.#compress(auditFile, segment))
        }
      }
    }
    await this.#attempt('ship', auditFile, () => this.#ship(keeping))
    if (retention !== undefined)
      await this.#attempt('prune', auditFile, () => this.#prune(keeping, retention))
  }

  #listed(auditFile: string): readonly ClosedSegment[] {
    try {
      return closedSegments(auditFile)
    } catch (error) {
      this.#parts.reports.failed('compress', (error as Error).message)
      return []
    }
  }

  async #compress(auditFile: string, segment: ClosedSegment): Promise<void> {
    const { needed, reports } = this.#parts
    if (needed().has(segment.path)) return
    if (!(await isSealed(auditFile, segment))) return this.#later('compress', segment.path)
    await compressSegment(segment.path)
    reports.done('compress')
  }

  async #ship({ auditFile, auditRotation, auditShip }: AuditKeeping): Promise<void> {
    const target = auditShip && (await shipTarget(auditShip))
    if (target === undefined) return
    if (this.#shipper?.targetName !== target.name) this.#shipper = new Shipper(auditFile, target)
    const shipper = this.#shipper
    const { reports, inUse } = this.#parts
    const segments = closedSegments(auditFile)
    shipper.forget(segments)
    const isFinal = ({ compression }: ClosedSegment) =>
      auditRotation?.compress !== 'zstd' || compression === 'zstd'
    const due = segments.filter((one) => !shipper.isShipped(one) && one.inode !== inUse())
    reports.unshipped(due.length, due[0]?.closedMs)
    for (const [i, segment] of due.filter(isFinal).entries()) {
      await shipper.ship(segment)
      reports.done('ship')
      reports.unshipped(due.length - i - 1, due[i + 1]?.closedMs)
      this.#treeShippedMs = Number.NEGATIVE_INFINITY
    }
    if (performance.now() - this.#treeShippedMs >= TREE_MS) {
      await shipper.shipTree()
      this.#treeShippedMs = performance.now()
    }
    this.#shipFailures = 0
  }

  async #prune(keeping: AuditKeeping, retention: AuditRetention): Promise<void> {
    const { reports, now, needed, record } = this.#parts
    const { auditFile, auditShip } = keeping
    const isShipped = async (segment: ClosedSegment, leaves: number) =>
      (await this.#shipper?.isThere(segment, leaves)) ?? false
    const shipping = auditShip === undefined ? undefined : isShipped
    const options = { auditFile, retention, nowMs: now(), needed, record, isShipped: shipping }
    const { segments, tiles, kept } = await pruneSegments(options)
    for (const _ of segments) reports.done('prune')
    if (segments.length > 0) {
      const names = segments.map(({ path }) => basename(path))
      reports.info({ segments: names, tiles }, 'audit segments were removed: their retention is over')
    }
    if (kept !== undefined) throw new Error(`${kept.segment} is to be removed, but ${kept.why}`)
  }

  async #attempt(task: KeeperTask, path: string, run: () => Promise<void>): Promise<void> {
    if (performance.now() < (this.#retryAtMs.get(`${task} ${path}`) ?? 0)) return
    try {
      await run()
    } catch (error) {
      this.#later(task, path)
      this.#parts.reports.failed(task, (error as Error).message)
    }
  }

  #later(task: KeeperTask, path: string): void {
    const shipMs = SHIP_RETRY_MS[Math.min(this.#shipFailures, SHIP_RETRY_MS.length - 1)] ?? RETRY_MS
    if (task === 'ship') this.#shipFailures++
    this.#retryAtMs.set(`${task} ${path}`, performance.now() + (task === 'ship' ? shipMs : RETRY_MS))
  }
}

/** With a later leaf in the log, because the sealer begins where it finds the last one. Or no trail of ours is sealed. */
async function isSealed(auditFile: string, segment: ClosedSegment): Promise<boolean> {
  const tree = SealedTree.of(auditFile)
  if (tree === undefined) return true
  const range = await tree.rangeOf(segment, 'end')
  return range !== undefined && range.last + 1 < tree.size
}

/** The client of buckets is loaded only for one. */
async function shipTarget({
  directory,
  s3,
}: NonNullable<AuditKeeping['auditShip']>): Promise<ShipTarget | undefined> {
  if (directory !== undefined) return new ShipDirectory(directory)
  if (s3 === undefined) return undefined
  const { ShipBucket } = await import('./ship-bucket.ts')
  return new ShipBucket(s3)
}

/** Removes what a process left that was killed while it compressed. */
export function removeDrafts(auditFile: string): void {
  const file = realPathOf(auditFile)
  for (const name of namesBeside(file)) {
    const isDraft = name.startsWith(basename(file)) && name.endsWith('.zst.tmp')
    if (isDraft && stampOf(name.slice(0, -'.tmp'.length)) !== undefined) rmSync(join(dirname(file), name))
  }
}
