import { type Limiter, PendingTake } from '../limits/limiter.ts'
import type { LimitRow } from '../limits/table/limit-table.ts'
import { isAllowed, type Take } from '../limits/windows/window.ts'
import { type SharedRow, type SharedTakes, sharedRowOf } from './shared-takes.ts'

/** Nothing was counted, and the request is refused. */
const DENIED: Take = { allowed: false, remaining: 0, resetSeconds: 1, unrecorded: true }
/** Nothing was counted, and the request is let through. */
const ALLOWED: Take = { allowed: true, remaining: 0, resetSeconds: 1, uncounted: true }

/** The limit table, counted by the store. Rows with `onStoreFailure: local` are counted here too, for when the store goes away. */
export class SharedLimits {
  readonly #local: Pick<Limiter, 'find' | 'take' | 'close'>
  readonly #takes: Pick<SharedTakes, 'take'>
  readonly #rows = new WeakMap<LimitRow, SharedRow>()

  constructor(local: Pick<Limiter, 'find' | 'take' | 'close'>, takes: Pick<SharedTakes, 'take'>) {
    this.#local = local
    this.#takes = takes
  }

  find(path: string, method: string): LimitRow | undefined {
    return this.#local.find(path, method)
  }

  /** Counts one hit of `key` at all gateways together. Known at once while the store is away. */
  ask(row: LimitRow, key: string): PendingTake {
    const pending = new PendingTake(row)
    this.#takes.take(this.#sharedRow(row), key, (take) => {
      pending.settle(this.#decide(row, key, take))
    })
    return pending
  }

  close(): void {
    this.#local.close()
  }

  /** Never throws: other requests wait for the same reply. @param take undefined: the store is away */
  #decide(row: LimitRow, key: string, take: Take | undefined): Take | Error {
    try {
      if (row.onStoreFailure !== 'local') return take ?? (row.onStoreFailure === 'deny' ? DENIED : ALLOWED)
      if (take === undefined) return this.#local.take(row, key)
      if (isAllowed(take)) this.#local.take(row, key, true)
      return take
    } catch (fault) {
      return fault instanceof Error ? fault : new Error(String(fault))
    }
  }

  #sharedRow(row: LimitRow): SharedRow {
    const known = this.#rows.get(row)
    if (known !== undefined) return known
    const shared = sharedRowOf(row)
    this.#rows.set(row, shared)
    return shared
  }
}
