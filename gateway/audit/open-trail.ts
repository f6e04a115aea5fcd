import { statSync } from 'node:fs'
import { makeDirectory, realPathOf, syncDirectoryOf, unusable } from '../storage/append-file.ts'
import { type ProcessLock, takeProcessLock } from '../storage/process-lock.ts'
import { inodeOf } from '../storage/regular-file.ts'
import { openChangeOf, pairKeyOf } from './audit-records.ts'
import type { ClockOffset } from './clock-offset.ts'
import type { Commit } from './commit/commit.ts'
import { setAside } from './file/foreign-writers.ts'
import { judgePlace } from './file/trail-place.ts'
import { STANDARD_OUTPUT } from './file/trail-sink.ts'
import { foreignBefore, hasEnded, type Recovery, recover } from './recovery/recovery.ts'
import type { ForeignWrite } from './seal-records.ts'
import { Trail } from './trail.ts'
import type { TrailOptions } from './trail-options.ts'

interface OpenOptions extends Omit<TrailOptions, 'lock'> {
  readonly clock?: ClockOffset | undefined
}

const NOTHING_TO_RECOVER: Recovery = { records: [], cutBytes: 0, damagedLines: 0, unresolved: 0 }

/**
 * Begins the trail in the order that loses nothing: lock, repair, open, missing responses, AUDIT_START. On a full disk
 * the trail is not `writable`.
 * @throws Error that names the file, when it cannot be used, belongs to others, or is written by another process
 */
export function openTrail(options: OpenOptions): Trail {
  return begun(options, false).trail
}

function begun(options: OpenOptions, isInherited: boolean): ReturnType<typeof open> {
  const opened = open(options)
  const { trail, recovery, foreign, told } = opened
  trail.begin({ ...recovery, ...options.clock, continues: foreign?.inode }, isInherited)
  if (foreign !== undefined) trail.sayForeign(foreign)
  else if (told !== undefined) options.onForeign?.(told)
  return opened
}

/** Opens the trail while the predecessor sends responses. @throws as `openTrail`, and when it cannot write the file */
export function continueTrail(options: OpenOptions): {
  readonly trail: Trail
  readonly inherited: InheritedRequests
} {
  const { trail, recovery } = begun(options, true)
  if (!trail.writable) {
    trail.close('cannot be written')
    throw unusable(options.file, 'it cannot be written')
  }
  return { trail, inherited: new InheritedRequests(trail, recovery.records) }
}

function open(options: Omit<TrailOptions, 'lock'>) {
  const { file, durability, now = Date.now } = options
  if (!isRegularTrail(file)) {
    if (durability === 'synced') throw unusable(file, 'only a regular file can be synced')
    return { trail: new Trail(options), recovery: NOTHING_TO_RECOVER, foreign: undefined, told: undefined }
  }
  makeDirectory(file)
  const { fault } = judgePlace(file)
  if (fault !== undefined) throw unusable(file, fault)
  const lock = lockTrail(file)
  try {
    const recovery = recover(file)
    if (recovery.foreign === undefined && !hasEnded(file)) options.onCrash?.()
    const foreign: ForeignWrite | undefined = recovery.foreign && {
      inode: inodeOf(file) ?? '',
      file: setAside(file, now()),
      ...recovery.foreign,
      reason: 'behind the end',
    }
    const told = foreign === undefined ? foreignBefore(file) : undefined
    const trail = new Trail({ ...options, lock })
    if (durability === 'synced') syncDirectoryOf(file)
    return { trail, recovery, foreign, told }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** Without a lock, a second writer would close open requests of the first and cut off its unfinished line. */
function lockTrail(file: string): ProcessLock {
  const path = `${realPathOf(file)}.lock`
  return takeProcessLock({
    path,
    whenTaken: `audit file ${file} is being written by another process, which holds ${path}: each gateway needs a GATEWAY_AUDIT_FILE of its own`,
  })
}

/** False for standard output and devices, which cannot be read again. */
export function isRegularTrail(file: string): boolean {
  if (file === STANDARD_OUTPUT) return false
  try {
    return statSync(file).isFile()
  } catch {
    return true
  }
}

/** Requests in flight at the predecessor, which still sends their responses. */
export class InheritedRequests {
  readonly #trail: Pick<Trail, 'settle'>
  /** Recovered responses by pair. `end` writes those that the predecessor has not sent. */
  readonly #open: Map<string | undefined, string[]>
  count: number

  constructor(trail: Pick<Trail, 'settle'>, recovered: readonly string[]) {
    this.#trail = trail
    this.#open = Map.groupBy(recovered, pairKeyOf)
    this.count = recovered.length
  }

  /** @returns a `Commit` that the predecessor must wait for, if any */
  settle(lines: readonly string[]): Commit | undefined {
    let last: Commit | undefined
    for (const line of lines) {
      if (openChangeOf(line) === -1 && this.#open.get(pairKeyOf(line))?.pop() !== undefined) this.count--
      last = this.#trail.settle(line)
    }
    return last
  }

  end(): number {
    const count = this.count
    for (const lines of this.#open.values()) for (const line of lines) this.#trail.settle(line)
    this.#open.clear()
    this.count = 0
    return count
  }
}
