import type { LastGoodKeys } from '../auth/keys/jwks.ts'
import type { Settings } from '../config/settings.ts'
import { Journal } from '../limits/journal/limit-journal.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import { LimitTable } from '../limits/table/limit-table.ts'
import { journalOptions } from '../process/data-files.ts'
import type { SessionNews, StateFiles } from '../process/restart/hand-over.ts'
import type { PassedState } from '../process/restart/messages.ts'
import { restoreState, takeState } from '../process/restart/passed-state.ts'
import {
  changeState,
  maintainState,
  makeSharedState,
  type SharedState,
  whyDegraded,
  whyNotHandedOver,
  whyUnready,
} from '../process/shared-state.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import { clockOrigin, commonClock } from './event-clock.ts'
import { EventLog } from './event-log.ts'
import { createSharedMemory, MAIN_SEAT, type SharedMemory } from './event-memory.ts'
import {
  copyState,
  follow,
  journalFlags,
  publishRevoked,
  publishSegment,
  publishTable,
  shareState,
} from './replication.ts'
import type { WorkerConfiguration } from './worker-messages.ts'

/** How often the main thread applies the workers' events. */
const CATCH_UP_MS = 50
/** How often the files are checked. */
const MAINTAIN_MS = 1000

/**
 * The main thread's copy of the shared state. It applies the workers' events, so that it can give its copy to a new worker.
 * Only the main thread starts journal segments and key files, and puts limit tables in force.
 */
export class PrimaryState implements StateFiles, SessionNews {
  readonly eventLog: EventLog
  readonly #memory: SharedMemory = createSharedMemory()
  readonly #originMs = clockOrigin()
  readonly #state: SharedState
  readonly #journal: Journal
  readonly #watch: StoreWatch
  readonly #settings: Settings
  readonly #catchingUp: NodeJS.Timeout
  #maintaining: NodeJS.Timeout
  #otherProcess: ((sid: string) => void) | undefined
  #rows: readonly LimitRow[]
  #publishedDescriptor: number | undefined

  /**
   * @param passed of the process that this one takes over from
   * @throws when the state of an earlier run cannot be read, or another gateway has locked it
   */
  constructor(
    startup: StartupConfiguration,
    { watch, gatewayId }: { readonly watch: StoreWatch; readonly gatewayId: string },
    passed?: PassedState,
  ) {
    this.eventLog = new EventLog({
      memory: this.#memory,
      seat: MAIN_SEAT,
      clock: commonClock(this.#originMs),
      onLost: (error) => {
        // Every new worker starts from this copy, so the gateway cannot continue.
        startup.log.fatal({ err: error }, 'the shared state is damaged')
        process.exit(1)
      },
    })
    this.#journal = new Journal({ ...journalOptions(startup, watch), flags: journalFlags(this.eventLog) })
    const replication = shareState(this.eventLog, undefined)
    this.#state = makeSharedState(startup, {
      journal: this.#journal,
      watch,
      replication,
      gatewayId,
      threadId: MAIN_SEAT,
    })
    this.#watch = watch
    this.#settings = startup.settings
    this.#rows = startup.limits.value
    this.#state.limiter.replace(this.#rows)
    this.#publishedDescriptor = this.#journal.descriptor
    follow(this.eventLog, this.#state, {
      // Only this thread changes tables and segments.
      table: () => {},
      segment: () => {},
      revoked: (sid) => this.#otherProcess?.(sid),
      durableHit: (hit, written) => this.#journal.appendFromOther(hit, written),
    })
    maintainState(this.#state, watch)
    if (passed !== undefined) restoreState(passed, this.#state)
    // Not as a step: a worker that waits for room in the ring within its own step waits for this thread to read.
    this.#catchingUp = setInterval(() => this.eventLog.catchUp(), CATCH_UP_MS).unref()
    this.#maintaining = this.#maintainEachSecond()
  }

  /** Puts a limit table in force on every thread, at the same position in the event log: now or soon. @throws when it is invalid */
  replaceTable(rows: readonly LimitRow[]): void {
    new LimitTable(rows)
    this.eventLog.whenFree(() => {
      // First, so that no table is in force here that the workers do not have. They count nothing before the end of the step.
      publishTable(this.eventLog, rows, this.#journal.nextId)
      this.#state.limiter.replace(rows)
      this.#rows = rows
      this.#publishSegment()
    })
  }

  /** The main thread counts failed credentials too, for new workers, and looks after the shared store. */
  changeSettings(settings: Settings): void {
    changeState(this.#state, settings)
  }

  /** For a worker that took its seat in this turn of the event loop. */
  copy(): Pick<WorkerConfiguration, 'memory' | 'originMs' | 'rows' | 'copy' | 'descriptor'> {
    return {
      memory: this.#memory,
      originMs: this.#originMs,
      rows: this.#rows,
      copy: copyState(this.#state, this.eventLog.nowMs),
      descriptor: this.#publishedDescriptor,
    }
  }

  /** For who only looks at what is counted. */
  get limiter(): Pick<Limiter, 'inForce'> {
    return this.#state.limiter
  }

  /** Why the gateway is not ready, for the probe; undefined when it is ready. */
  get whyUnready(): string | undefined {
    return whyUnready(this.#state, this.#settings)
  }

  /** What is degraded, for the probe; undefined when nothing is. */
  get whyDegraded(): string | undefined {
    return whyDegraded(this.#state)
  }

  /** Why another process cannot take over now; undefined when it can. */
  whyNotHandedOver(trail: Parameters<typeof whyNotHandedOver>[0]): string | undefined {
    return whyNotHandedOver(trail, this.#state)
  }

  /** When no worker begins a request. From now on workers write no hits either. */
  suspend(keys: readonly LastGoodKeys[]): Promise<PassedState> {
    clearInterval(this.#maintaining)
    return new Promise((resolve) =>
      this.eventLog.whenFree(() => {
        maintainState(this.#state, this.#watch)
        this.#state.limiter.close()
        this.#publishSegment()
        resolve(takeState(this.#state, keys))
      }),
    )
  }

  resume(): void {
    this.#state.limiter.reopen()
    this.#maintaining = this.#maintainEachSecond()
    this.#maintain()
  }

  tell(other: ((sid: string) => void) | undefined): void {
    this.#otherProcess = other
  }

  hear(sid: string, isWritten: boolean): void {
    this.eventLog.whenFree(() => {
      this.#state.revocations.apply(sid, this.eventLog.nowMs, isWritten)
      publishRevoked(this.eventLog, sid)
    })
  }

  /** After a hand-over, when the files are another process's, and no worker has a request: their last events count too. */
  leave(): void {
    clearInterval(this.#catchingUp)
    this.eventLog.catchUp()
    this.#state.member?.close()
  }

  /** Call when no worker runs any more. */
  close(): void {
    clearInterval(this.#catchingUp)
    clearInterval(this.#maintaining)
    this.eventLog.catchUp()
    maintainState(this.#state, this.#watch)
    this.#state.limiter.close()
    this.#state.member?.close()
  }

  #maintainEachSecond(): NodeJS.Timeout {
    return setInterval(() => this.#maintain(), MAINTAIN_MS).unref()
  }

  #maintain(): void {
    this.eventLog.whenFree(() => {
      maintainState(this.#state, this.#watch)
      this.#publishSegment()
    })
  }

  /** In the same step in which the journal may have changed its file: the old one is closed. */
  #publishSegment(): void {
    const { descriptor } = this.#journal
    if (descriptor === this.#publishedDescriptor) return
    this.#publishedDescriptor = descriptor
    publishSegment(this.eventLog, descriptor)
  }
}
