import type { Settings } from '../config/settings.ts'
import type { Journal } from '../limits/journal/limit-journal.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import { limitTable } from '../limits/table/policies.ts'
import { makeJournal } from '../process/assemble.ts'
import {
  type Holdings,
  makeHoldings,
  tendHoldings,
  whyDegraded,
  whyUnready,
} from '../process/shared-state.ts'
import type { Ground } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import { clockOrigin, commonClock } from './event-clock.ts'
import { Order } from './event-log.ts'
import { createSharedMemory, MAIN_SEAT, type SharedMemory } from './event-memory.ts'
import {
  checkTellable,
  copyHoldings,
  follow,
  journalFlags,
  shareHoldings,
  tellSegment,
  tellTable,
} from './replication.ts'
import type { WorkerGround } from './worker-configuration.ts'

/** How often what the workers have done is done here too. */
const CATCH_UP_MS = 50
/** How often the files are looked after. */
const TEND_MS = 1000

/**
 * What is counted and remembered, as the main thread has it: it takes nothing itself, but does what the workers do, so
 * that it can give another worker its copy. It alone begins segments of the journal and files of keys, and puts tables in
 * force.
 */
export class LeadHoldings {
  readonly order: Order
  readonly #memory: SharedMemory = createSharedMemory()
  readonly #originMs = clockOrigin()
  readonly #holdings: Holdings
  readonly #journal: Journal
  readonly #watch: StoreWatch
  readonly #settings: Settings
  readonly #timers: readonly NodeJS.Timeout[]
  #rows: readonly LimitRow[]
  #told: number | undefined

  /** Throws when what an earlier run left cannot be read, or another gateway holds it. */
  constructor(ground: Ground, watch: StoreWatch) {
    this.order = new Order({
      memory: this.#memory,
      seat: MAIN_SEAT,
      clock: commonClock(this.#originMs),
      onLost: (error) => {
        // Without the copy that all others are made from there is nothing to go on with.
        ground.log.fatal({ err: error }, 'the shared state is damaged')
        process.exit(1)
      },
    })
    this.#journal = makeJournal(ground, watch, journalFlags(this.order))
    const sharing = shareHoldings(this.order, undefined)
    this.#holdings = makeHoldings(ground, { keeping: this.#journal, watch, sharing })
    this.#watch = watch
    this.#settings = ground.settings
    this.#rows = ground.limits.value
    this.#holdings.limiter.replace(this.#rows)
    this.#told = this.#journal.descriptor
    follow(this.order, this.#holdings, {
      // Nobody else puts one in force.
      table: () => {},
      segment: () => {},
      durableHit: (hit, written) => this.#journal.adopt(hit, written),
    })
    tendHoldings(this.#holdings, watch)
    this.#timers = [
      setInterval(() => this.order.catchUp(), CATCH_UP_MS).unref(),
      setInterval(() => this.#tend(), TEND_MS).unref(),
    ]
  }

  /** Puts another table in force on every thread, at one place in their order. Throws when it cannot be. */
  replaceTable(rows: readonly LimitRow[]): void {
    limitTable(rows)
    checkTellable(this.order, rows)
    this.order.whenFree(() => {
      const firstId = this.#journal.nextId
      this.#holdings.limiter.replace(rows)
      this.#rows = rows
      tellTable(this.order, rows, firstId)
      this.#tellSegment()
    })
  }

  /** For a worker that was given its seat in this turn of the loop. */
  copy(): Pick<WorkerGround, 'memory' | 'originMs' | 'rows' | 'copy' | 'descriptor'> {
    return {
      memory: this.#memory,
      originMs: this.#originMs,
      rows: this.#rows,
      copy: copyHoldings(this.#holdings, this.order.nowMs),
      descriptor: this.#told,
    }
  }

  /** Why no traffic should come, in words for the probe; undefined when it should. */
  get whyUnready(): string | undefined {
    return whyUnready(this.#holdings, this.#settings)
  }

  /** What is done without, in words for the probe; undefined when that is nothing. */
  get whyDegraded(): string | undefined {
    return whyDegraded(this.#holdings)
  }

  /** When no worker is left. */
  close(): void {
    for (const timer of this.#timers) clearInterval(timer)
    this.order.catchUp()
    tendHoldings(this.#holdings, this.#watch)
    this.#holdings.limiter.close()
  }

  #tend(): void {
    this.order.whenFree(() => {
      tendHoldings(this.#holdings, this.#watch)
      this.#tellSegment()
    })
  }

  /** Within the step in which the journal may have gone on in another file: the old one is closed. */
  #tellSegment(): void {
    const { descriptor } = this.#journal
    if (descriptor === this.#told) return
    this.#told = descriptor
    tellSegment(this.order, descriptor)
  }
}
