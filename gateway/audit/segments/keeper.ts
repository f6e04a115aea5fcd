import { basename, dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { AuditRetention, AuditSettings } from '../../config/settings.ts'
import { realPathOf } from '../../storage/append-file.ts'
import { removeFile } from '../../storage/line-file.ts'
import { compressSegment } from './compress-segment.ts'
import { pruneSegments } from './prune-segments.ts'
import { SealedTree } from './sealed-tree.ts'
import { stampOf } from './segment.ts'
import { ShipDirectory } from './ship-target.ts'
import { Shipper } from './shipper.ts'
import { type ClosedSegment, closedSegments, namesBeside } from './trail-segments.ts'

export type AuditKeeping = Pick<AuditSettings, 'file' | 'seals' | 'rotation' | 'retention' | 'ship'>
type KeeperTask = 'compress' | 'ship' | 'prune'

export interface KeeperReports {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  failed(task: KeeperTask, cause: string): void
  done(task: KeeperTask): void
  /** @param oldestMs when the oldest was closed */
  unshipped(count: number, oldestMs: number | undefined): void
}

export interface KeeperParts {
  readonly reports: KeeperReports
  /** From `SteadyWallClock`. */
  readonly now: () => number
  /** Time for records, by the clock of the machine. */
  readonly wallNow?: () => number
  /** Segments that a start would read to find open requests. */
  readonly needed: () => Promise<ReadonlySet<string>>
  readonly inUse: () => Promise<string>
  /** Resolves when the lines are sealed or synced. @param isSealed this gateway seals the trail */
  readonly record: (lines: readonly string[], isSealed: boolean) => Promise<void>
}

const FIRST_RETRY_MS = 2000
const LAST_RETRY_MS = 300_000
const TREE_MS = 900_000

export class SegmentKeeper {
  readonly #parts: KeeperParts
  readonly #retries = new Map<string, { readonly atMs: number; readonly delayMs: number }>()
  #shipTo: AuditKeeping['ship']
  #shipper: Shipper | undefined
  #treeShippedMs = Number.NEGATIVE_INFINITY
  /** First leaf behind the segment that was compressed last. */
  #nextLeaf: number | undefined

  constructor(parts: KeeperParts) {
    this.#parts = parts
  }

  /** Does not reject: faults are reported. */
  async round(keeping: AuditKeeping): Promise<void> {
    const { file, rotation, retention } = keeping
    this.#followEdit(keeping)
    if (rotation?.compress === 'zstd') await this.#attempt('compress', file, () => this.#compress(keeping))
    await this.#attempt('ship', file, () => this.#ship(keeping))
    if (retention !== undefined) await this.#attempt('prune', file, () => this.#prune(keeping, retention))
  }

  /** Begins anew after an edit of the target, because another target has nothing yet. */
  #followEdit({ file, ship }: AuditKeeping): void {
    if (isDeepStrictEqual(ship, this.#shipTo)) return
    this.#shipTo = ship
    this.#shipper = undefined
    this.#treeShippedMs = Number.NEGATIVE_INFINITY
    this.#retries.delete(`ship ${file}`)
  }

  /** Compresses segments without open requests. To find these is costly, so calls become rare while a segment waits. */
  async #compress(keeping: AuditKeeping): Promise<boolean> {
    const plain = closedSegments(keeping.file).filter(({ compression }) => compression === 'none')
    if (plain.length === 0) return true
    const needed = await this.#parts.needed()
    const free = plain.filter(({ path }) => !needed.has(path))
    for (const segment of free) {
      await this.#attempt('compress', segment.path, () => this.#compressOne(keeping, segment))
    }
    return free.length === plain.length
  }

  async #compressOne({ file, seals }: AuditKeeping, segment: ClosedSegment): Promise<boolean> {
    const tree = seals === 'on' ? SealedTree.of(file) : undefined
    const range = await tree?.rangeOf(segment, 'end', this.#nextLeaf)
    // The sealer needs the last leaf's line.
    if (tree !== undefined && (range === undefined || range.last + 1 >= tree.size)) return false
    this.#nextLeaf = range && range.last + 1
    await compressSegment(segment.path)
    this.#parts.reports.done('compress')
    return true
  }

  async #ship({ file, rotation, ship }: AuditKeeping): Promise<boolean> {
    this.#shipper ??= ship && (await makeShipper(file, ship))
    const shipper = this.#shipper
    if (shipper === undefined) return true
    const { reports, inUse } = this.#parts
    const segments = closedSegments(file)
    shipper.forget(segments)
    const isFinal = ({ compression }: ClosedSegment) =>
      rotation?.compress !== 'zstd' || compression === 'zstd'
    const inode = await inUse()
    const due = segments.filter((one) => !shipper.isShipped(one) && one.inode !== inode)
    const waiting = new Set(due)
    const tellWaiting = () => {
      const [oldest] = waiting
      reports.unshipped(waiting.size, oldest?.closedMs)
    }
    tellWaiting()
    shipper.checkLog()
    try {
      for (const segment of due.filter(isFinal)) {
        await shipper.ship(segment)
        waiting.delete(segment)
        reports.done('ship')
        tellWaiting()
        this.#treeShippedMs = Number.NEGATIVE_INFINITY
      }
    } finally {
      if (waiting.size < due.length) shipper.keep()
    }
    if (performance.now() - this.#treeShippedMs >= TREE_MS) {
      await shipper.shipTree()
      this.#treeShippedMs = performance.now()
    }
    return true
  }

  async #prune(keeping: AuditKeeping, retention: AuditRetention): Promise<boolean> {
    const { reports, now, wallNow = Date.now, needed, inUse, record } = this.#parts
    const { file: auditFile, seals, ship } = keeping
    const isShipped = async (segment: ClosedSegment, leaves: number) =>
      (await this.#shipper?.isThere(segment, leaves)) ?? false
    let files: Promise<ReadonlySet<string>> | undefined
    const { segments, tiles, kept } = await pruneSegments({
      auditFile,
      retention,
      isSealed: seals === 'on',
      nowMs: now(),
      wallMs: wallNow(),
      needed: () => (files ??= needed()),
      inUse,
      record: (lines) => record(lines, seals === 'on'),
      isShipped: ship === undefined ? undefined : isShipped,
    })
    const names = segments.map(({ path }) => basename(path))
    for (const _ of names) reports.done('prune')
    if (names.length > 0) {
      reports.info({ segments: names, tiles }, 'audit segments were removed: their retention is over')
    }
    if (kept !== undefined) throw new Error(`${kept.segment} is to be removed, but ${kept.why}`)
    return true
  }

  /** @param run returns false, or throws, when it must be tried again */
  async #attempt(task: KeeperTask, path: string, run: () => Promise<boolean>): Promise<void> {
    const key = `${task} ${path}`
    const { atMs, delayMs } = this.#retries.get(key) ?? { atMs: 0, delayMs: FIRST_RETRY_MS / 2 }
    if (performance.now() < atMs) return
    let isDone = false
    try {
      isDone = await run()
    } catch (error) {
      this.#parts.reports.failed(task, (error as Error).message)
    }
    const nextMs = Math.min(delayMs * 2, LAST_RETRY_MS)
    if (isDone) this.#retries.delete(key)
    else this.#retries.set(key, { atMs: performance.now() + nextMs, delayMs: nextMs })
  }
}

async function makeShipper(
  auditFile: string,
  { directory, s3 }: NonNullable<AuditKeeping['ship']>,
): Promise<Shipper | undefined> {
  if (directory !== undefined) return new Shipper(auditFile, new ShipDirectory(directory))
  if (s3 === undefined) return undefined
  const { ShipBucket } = await import('./ship-bucket.ts')
  return new Shipper(auditFile, new ShipBucket(s3))
}

export function removeDrafts(auditFile: string): void {
  const file = realPathOf(auditFile)
  for (const name of namesBeside(file)) {
    const isDraft = name.endsWith('.zst.tmp') && stampOf(file, name.slice(0, -'.tmp'.length)) !== undefined
    if (isDraft) removeFile(join(dirname(file), name))
  }
}
