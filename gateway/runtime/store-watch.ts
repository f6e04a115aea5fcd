import type { Logger } from 'pino'
import type { Metrics } from '../admin/metrics.ts'
import { storeRecord } from '../audit/audit-records.ts'
import type { Trail } from '../audit/trail.ts'
import type { KeyTable } from '../idempotency/key-table.ts'
import type { StoreMember } from '../store/store-member.ts'
import { RepeatedFault } from './repeated-fault.ts'

type StoreName = 'limits' | 'revocations' | 'webhooks' | 'idempotency' | 'shared'
/** A lasting fault is recorded again after this time, for readers of a single day of the trail. */
const RECORD_AGAIN_MS = 3_600_000

function nameOf(store: StoreName): string {
  return store === 'shared' ? 'the shared store' : 'a store in the data directory'
}

interface StoreWatchOptions {
  readonly log: Logger
  readonly metrics: Metrics
  readonly trail: Pick<Trail, 'settle'>
  readonly now?: () => number
}

/** Reports in log, metrics and audit trail when a store becomes unwritable, and when it recovers. */
export class StoreWatch {
  readonly #options: StoreWatchOptions
  readonly #faults: Readonly<Record<StoreName, RepeatedFault>> = {
    limits: new RepeatedFault(),
    revocations: new RepeatedFault(),
    webhooks: new RepeatedFault(),
    idempotency: new RepeatedFault(),
    shared: new RepeatedFault(),
  }
  readonly #now: () => number
  readonly #degraded = new Map<StoreName, { readonly since: string; readonly recordedAtMs: number }>()

  constructor(options: StoreWatchOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  fault(store: StoreName, cause: string): void {
    const { log, metrics } = this.#options
    metrics.gateway_store_write_errors_total.count(store)
    this.#because(store, cause)
    const due = this.#faults[store].due(cause)
    if (due !== undefined) log.error({ store, ...due }, `${nameOf(store)} reports a fault`)
  }

  #because(store: StoreName, cause: string): void {
    const metric = store === 'shared' ? 'gateway_store_breaker_open' : `gateway_store_writable ${store}`
    this.#options.metrics.causes.set(metric, cause)
  }

  /** Called once, and only where there is a shared store. */
  expose(shared: Pick<StoreMember, 'counts' | 'isAway' | 'unsentSessions'>): void {
    const { metrics } = this.#options
    const { counts } = shared
    metrics.gateway_store_writable.read(() => [['shared', shared.isAway ? 0 : 1]])
    metrics.gateway_store_write_errors_total.begin('shared')
    metrics.gateway_store_round_trips_total.read(() => counts.roundTrips)
    metrics.gateway_store_round_trip_duration_seconds.read(() => ({
      counts: counts.latency,
      sum: counts.roundTripMs / 1000,
    }))
    metrics.gateway_store_breaker_open.read(() => (shared.isAway ? 1 : 0))
    metrics.gateway_store_takes_total.read(() => [
      ['decided', counts.takes],
      ['undecided', counts.undecidedTakes],
    ])
    metrics.gateway_store_script_reloads_total.read(() => counts.scriptReloads)
    metrics.gateway_store_outages_total.read(() => counts.outages)
    metrics.gateway_store_unsent_sessions.read(() => shared.unsentSessions)
  }

  /** Called once. */
  exposeKeys(table: Pick<KeyTable, 'size' | 'bytes'>): void {
    const { metrics } = this.#options
    metrics.gateway_idempotency_keys.read(() => table.size)
    metrics.gateway_idempotency_bytes.read(() => table.bytes)
  }

  /** Reports that the shared store is away. The log has this once, until the store is observed to be writable. */
  away(cause: string): void {
    this.#options.metrics.gateway_store_write_errors_total.count('shared')
    this.#because('shared', cause)
    this.#faults.shared.due(cause)
    this.observe('shared', false)
  }

  /** Files were removed while the gateway ran, and made again. */
  removed(store: StoreName, cause: string): void {
    this.fault(store, cause)
    this.observe(store, false)
  }

  observe(store: StoreName, writable: boolean): void {
    const { log, metrics, trail } = this.#options
    if (store !== 'shared') metrics.gateway_store_writable.set(writable ? 1 : 0, store)
    metrics.gateway_store_write_errors_total.begin(store)
    const degraded = this.#degraded.get(store)
    if (writable === (degraded === undefined)) return
    const timestamp = new Date().toISOString()
    if (degraded !== undefined) {
      this.#degraded.delete(store)
      this.#faults[store].end()
      trail.settle(storeRecord({ type: 'STORE_RESTORED', timestamp, store, since: degraded.since }))
      log.info(
        { store },
        store === 'shared' ? 'the shared store responds again' : `${nameOf(store)} can be written again`,
      )
      return
    }
    this.#degraded.set(store, { since: timestamp, recordedAtMs: this.#now() })
    const cause = this.#faults[store].cause
    trail.settle(storeRecord({ type: 'STORE_DEGRADED', timestamp, store, cause }))
    log.error(
      { store, cause },
      store === 'shared' ? 'the shared store is away' : `${nameOf(store)} cannot be written`,
    )
  }

  /** Called once a second. */
  repeat(): void {
    const nowMs = this.#now()
    for (const [store, { since, recordedAtMs }] of this.#degraded) {
      if (nowMs - recordedAtMs < RECORD_AGAIN_MS) continue
      this.#degraded.set(store, { since, recordedAtMs: nowMs })
      const { cause } = this.#faults[store]
      const timestamp = new Date().toISOString()
      this.#options.trail.settle(storeRecord({ type: 'STORE_DEGRADED', timestamp, store, cause, since }))
    }
  }
}
