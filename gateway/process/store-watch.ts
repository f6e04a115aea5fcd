import type { Logger } from 'pino'
import type { Metrics } from '../admin/metrics.ts'
import { storeRecord } from '../audit/audit-records.ts'
import type { Trail } from '../audit/trail.ts'

/** The stores in the data directory. */
export type StoreName = 'limits' | 'revocations' | 'webhooks'

export interface StoreWatchOptions {
  readonly log: Logger
  readonly metrics: Pick<Metrics, 'storeWritable' | 'storeWriteError'>
  readonly trail: Pick<Trail, 'settle'>
}

/** The same fault of a store is logged again after this time. */
const FAULT_EVERY_MS = 1000

/** Reports in log, metrics and audit trail when a store becomes unwritable, and when it can be written again. */
export class StoreWatch {
  readonly #options: StoreWatchOptions
  readonly #told = new Map<StoreName, { readonly cause: string; readonly atMs: number }>()
  readonly #degraded = new Set<StoreName>()

  constructor(options: StoreWatchOptions) {
    this.#options = options
  }

  /** Reports a fault of a store's files. */
  fault(store: StoreName, cause: string): void {
    const { log, metrics } = this.#options
    metrics.storeWriteError(store)
    const told = this.#told.get(store)
    const atMs = performance.now()
    // A full disk fails every request, and the log may be on the same disk.
    if (told?.cause === cause && atMs - told.atMs < FAULT_EVERY_MS) return
    this.#told.set(store, { cause, atMs })
    log.error({ store, cause }, 'the data directory')
  }

  /** Reports that the files of a store were removed while the gateway ran, and were created again. */
  removed(store: StoreName, cause: string): void {
    this.fault(store, cause)
    this.observe(store, false)
  }

  /** Reports whether the store is writable now. Called once a second. */
  observe(store: StoreName, writable: boolean): void {
    const { log, metrics, trail } = this.#options
    metrics.storeWritable(store, writable)
    if (writable === !this.#degraded.has(store)) return
    const timestamp = new Date().toISOString()
    if (writable) {
      this.#degraded.delete(store)
      trail.settle(storeRecord({ type: 'STORE_RESTORED', timestamp, store }))
      log.info({ store }, 'the store can be written again')
      return
    }
    this.#degraded.add(store)
    const cause = this.#told.get(store)?.cause
    trail.settle(storeRecord({ type: 'STORE_DEGRADED', timestamp, store, cause }))
    log.error({ store, cause }, 'the store cannot be written')
  }
}
