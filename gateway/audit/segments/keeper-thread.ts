import { parentPort, workerData } from 'node:worker_threads'
import { realPathOf } from '../../storage/append-file.ts'
import { type ProcessLock, takeProcessLock } from '../../storage/process-lock.ts'
import { appendUntilSealed } from '../commit/append-until-sealed.ts'
import type { FileEnd, FilePlace } from '../file/trail-file.ts'
import { filesOfOpenRequests } from '../recovery/recovery.ts'
import { type AuditKeeping, type KeeperReports, removeDrafts, SegmentKeeper } from './keeper.ts'
import { keepKnownTime, readKnownTime, SteadyWallClock } from './steady-wall-clock.ts'

export type KeeperData = { readonly file: string }

export type ToKeeper =
  | { readonly type: 'round'; readonly keeping: AuditKeeping }
  | ({ readonly type: 'present' } & FileEnd & FilePlace)
  | { readonly type: 'recorded'; readonly error: string | undefined }

export type FromKeeper =
  | { readonly type: 'ask' }
  | { readonly type: 'record'; readonly line: string }
  | { readonly type: 'report'; readonly name: keyof KeeperReports; readonly args: readonly unknown[] }

/** A thread that looks after closed segments. It may end at any step. */

const { file } = workerData as KeeperData

const KEEP_TIME_MS = 600_000

let lock: ProcessLock | undefined
let clock = new SteadyWallClock(undefined)
let timeKeptMs = Number.NEGATIVE_INFINITY
let isDoubtTold = false
let wanted: AuditKeeping | undefined
let isRunning = false
let recorded: PromiseWithResolvers<void> | undefined
let asked: PromiseWithResolvers<FileEnd & FilePlace> | undefined

function tell(message: FromKeeper): void {
  parentPort?.postMessage(message)
}

function append(line: string): Promise<void> {
  recorded = Promise.withResolvers()
  tell({ type: 'record', line })
  return recorded.promise
}

function present(): Promise<FileEnd & FilePlace> {
  asked = Promise.withResolvers()
  tell({ type: 'ask' })
  return asked.promise
}

function report(name: keyof KeeperReports) {
  return (...args: readonly unknown[]) => tell({ type: 'report', name, args })
}

const reports: KeeperReports = {
  info: report('info'),
  warn: report('warn'),
  failed: report('failed'),
  done: report('done'),
  unshipped: report('unshipped'),
}
const keeper = new SegmentKeeper({
  now: () => clock.now(),
  needed: async () => filesOfOpenRequests(file, await present()),
  inUse: async () => (await present()).inode,
  record: (lines, isSealed) => appendUntilSealed(lines, { auditFile: file, isSealed, append }),
  reports,
})

/** During a restart the predecessor may hold the lock. */
function hasLock(): boolean {
  if (lock !== undefined) return true
  let taken: ProcessLock | undefined
  try {
    const path = `${realPathOf(file)}.segments.lock`
    taken = takeProcessLock({ path, whenTaken: 'another process looks after the segments' })
    clock = new SteadyWallClock(readKnownTime(file))
  } catch {
    taken?.release()
    return false
  }
  lock = taken
  try {
    removeDrafts(file)
  } catch (error) {
    reports.failed('compress', (error as Error).message)
  }
  return true
}

async function run(): Promise<void> {
  if (isRunning || !hasLock()) return
  isRunning = true
  for (let keeping = wanted; keeping !== undefined; keeping = wanted) {
    wanted = undefined
    await keeper.round(keeping)
    if (keeping.retention !== undefined) keepTime()
  }
  isRunning = false
}

/** Stores the known time, so that a start with a wrong clock does not remove everything. */
function keepTime(): void {
  tellDoubt()
  if (performance.now() - timeKeptMs < KEEP_TIME_MS) return
  timeKeptMs = performance.now()
  try {
    keepKnownTime(file, clock.knownMs)
  } catch {
    // The next process then knows an earlier time, and waits longer.
  }
}

function tellDoubt(): void {
  const { doubtfulMs } = clock
  if (doubtfulMs > 0 && !isDoubtTold) {
    const fields = {
      knownTime: new Date(clock.knownMs).toISOString(),
      aheadSeconds: Math.round(doubtfulMs / 1000),
    }
    const message =
      'the clock of this machine went forward: audit.retention follows it after a day without another jump'
    reports.warn(fields, message)
  }
  isDoubtTold = doubtfulMs > 0
}

parentPort?.on('message', (message: ToKeeper) => {
  if (message.type === 'round') {
    wanted = message.keeping
    void run()
  } else if (message.type === 'present') asked?.resolve(message)
  else if (message.error === undefined) recorded?.resolve()
  else recorded?.reject(new Error(message.error))
})
