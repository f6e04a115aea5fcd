import { BackgroundThread } from '../background-thread.ts'
import type { Trail } from '../trail.ts'
import type { AuditKeeping, KeeperReports } from './keeper.ts'
import type { FromKeeper, KeeperData, ToKeeper } from './keeper-thread.ts'

/** Time after which a `buffered` line is in the file. */
const BUFFERED_MS = 100

/** Starts its thread when there is something to do. */
export class SegmentThread {
  readonly #trail: Trail
  readonly #reports: KeeperReports
  readonly #thread: BackgroundThread<ToKeeper, FromKeeper>
  #isStarted = false

  constructor(trail: Trail, reports: KeeperReports) {
    this.#trail = trail
    this.#reports = reports
    const job: KeeperData = { file: trail.file }
    this.#thread = new BackgroundThread({
      script: 'segments/keeper-thread',
      job,
      onNews: (message) => this.#hear(message),
      onFault: (cause) => reports.failed('compress', cause),
    })
  }

  round({ file, seals, rotation, retention, ship }: AuditKeeping): void {
    // If shipping was on before, the thread may not learn that it is off.
    if (ship === undefined) this.#reports.unshipped(0, undefined)
    const isIdle = rotation?.compress !== 'zstd' && retention === undefined && ship === undefined
    // The process that has the trail looks after its segments.
    if (isIdle || this.#trail.inode === undefined) return
    if (!this.#isStarted) this.#thread.start()
    this.#isStarted = true
    this.#thread.post({ type: 'round', keeping: { file, seals, rotation, retention, ship } })
  }

  #hear(message: FromKeeper): void {
    if (message.type === 'ask') this.#thread.post({ type: 'present', ...this.#trail.present() })
    else if (message.type === 'record') this.#record(message.line)
    else (this.#reports[message.name] as (...args: readonly unknown[]) => void)(...message.args)
  }

  /** Answers without an error only when the operating system (`synced`: the disk) has the line. */
  #record(line: string): void {
    const trail = this.#trail
    const unwritable = () => (trail.recheck() ? undefined : new Error('the audit trail cannot be written'))
    const recorded = (error: Error | undefined) =>
      this.#thread.post({ type: 'recorded', error: error?.message })
    const error = unwritable()
    const commit = error === undefined ? trail.settle(line) : undefined
    if (error !== undefined) recorded(error)
    else if (commit !== undefined) commit.whenDone(recorded)
    else setTimeout(() => recorded(unwritable()), BUFFERED_MS)
  }
}
