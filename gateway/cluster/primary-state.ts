import type { Settings } from '../config/settings.ts'
import type { Journal } from '../limits/journal/limit-journal.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import { LimitTable } from '../limits/table/limit-table.ts'
import { makeJournal } from '../process/assemble.ts'
import {
  makeSharedState,
  type SharedState,
  tendState,
  whyDegraded,
  whyUnready,
} from '../process/shared-state.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import { clockOrigin, commonClock } from './event-clock.ts'
import { EventLog } from './event-log.ts'
import { createSharedMemory, MAIN_SEAT, type SharedMemory } from './event-memory.ts'
import {
  checkPublishable,
  copyState,
  follow,
  journalFlags,
  publishSegment,
  publishTable,
  shareState,
} from './replication.ts'
import type { WorkerConfiguration } from './worker-configuration.ts'

/** How often what the workers have done is done here too. */
const CATCH_UP_MS = 50
/** How often the files are looked after. */
const TEND_MS = 1000

/**
 * What is counted and remembered, as the main thread has it: it takes nothing itself, but does what the workers do, so
 * that it can give another worker its copy. It alone begins segments of the journal and files of keys, and puts tables in
 * force.
 */
export class PrimaryState {
  readonly eventLog: EventLog
  readonly #memory: SharedMemory = createSharedMemory()
  readonly #originMs = clockOrigin()
  readonly #state: SharedState
  readonly #journal: Journal
  readonly #watch: StoreWatch
  readonly #settings: Settings
  readonly #timers: readonly NodeJS.Timeout[]
  #rows: readonly LimitRow[]
  #publishedDescriptor: number | undefined

  /** Throws when what an earlier run left cannot be read, or another gateway holds it. */
  constructor(startup: StartupConfiguration, watch: StoreWatch) {
    this.eventLog = new EventLog({
      memory: this.#memory,
      seat: MAIN_SEAT,
      clock: commonClock(this.#originMs),
      onLost: (error) => {
        // Without the copy that all others are made from there is nothing to go on with.
        startup.log.fatal({ err: error }, 'the shared state is damaged')
        process.exit(1)
      },
    })
    this.#journal = makeJournal(startup, watch, journalFlags(this.eventLog))
    const sharing = shareState(this.eventLog, undefined)
    this.#state = makeSharedState(startup, { journal: this.#journal, watch, sharing })
    this.#watch = watch
    this.#settings = startup.settings
    this.#rows = startup.limits.value
    this.#state.limiter.replace(this.#rows)
    this.#publishedDescriptor = this.#journal.descriptor
    follow(this.eventLog, this.#state, {
      // Nobody else puts one in force.
      table: () => {},
      segment: () => {},
      durableHit: (hit, written) => this.#journal.adopt(hit, written),
    })
    tendState(this.#state, watch)
    this.#timers = [
      setInterval(() => this.eventLog.catchUp(), CATCH_UP_MS).unref(),
      setInterval(() => this.#tend(), TEND_MS).unref(),
    ]
  }

  /** Puts another table in force on every thread, at one place in their order. Throws when it cannot be. */
  replaceTable(rows: readonly LimitRow[]): void {
    new LimitTable(rows)
    checkPublishable(this.eventLog, rows)
    this.eventLog.whenFree(() => {
      const firstId = this.#journal.nextId
      this.#state.limiter.replace(rows)
      this.#rows = rows
      publishTable(this.eventLog, rows, firstId)
      this.#publishSegment()
    })
  }

  /** For a worker that was given its seat in this turn of the loop. */
  copy(): Pick<WorkerConfiguration, 'memory' | 'originMs' | 'rows' | 'copy' | 'descriptor'> {
    return {
      memory: this.#memory,
      originMs: this.#originMs,
      rows: this.#rows,
      copy: copyState(this.#state, this.eventLog.nowMs),
      descriptor: this.#publishedDescriptor,
    }
  }

  /** Why no traffic should come, in words for the probe; undefined when it should. */
  get whyUnready(): string | undefined {
    return whyUnready(this.#state, this.#settings)
  }

  /** What is done without, in words for the probe; undefined when that is nothing. */
  get whyDegraded(): string | undefined {
    return whyDegraded(this.#state)
  }

  /** When no worker is left. */
  close(): void {
    for (const timer of this.#timers) clearInterval(timer)
    this.eventLog.catchUp()
    tendState(this.#state, this.#watch)
    this.#state.limiter.close()
  }

  #tend(): void {
    this.eventLog.whenFree(() => {
      tendState(this.#state, this.#watch)
      this.#publishSegment()
    })
  }

  /** Within the step in which the journal may have gone on in another file: the old one is closed. */
  #publishSegment(): void {
    const { descriptor } = this.#journal
    if (descriptor === this.#publishedDescriptor) return
    this.#publishedDescriptor = descriptor
    publishSegment(this.eventLog, descriptor)
  }
}
