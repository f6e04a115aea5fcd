import type { Caller } from '../limits/limit-key.ts'
import { type Limiter, PendingTake, UNCOUNTED, UNRECORDED } from '../limits/limiter.ts'
import { type LimitRow, passes, rowsOf } from '../limits/table/limit-table.ts'
import type { Take } from '../limits/windows/window.ts'
import { type SharedRow, type SharedTakes, sharedRowOf } from './shared-takes.ts'

/** The limit table, counted by the store. For outages, rows with `onStoreFailure: local` are counted here too. */
export class SharedLimits {
  readonly #local: Pick<Limiter, 'find' | 'take'> & { close(): void }
  readonly #takes: Pick<SharedTakes, 'take'>
  readonly #rows = new WeakMap<LimitRow, SharedRow>()

  constructor(local: Pick<Limiter, 'find' | 'take'> & { close(): void }, takes: Pick<SharedTakes, 'take'>) {
    this.#local = local
    this.#takes = takes
  }

  find(path: string, method: string, plan?: string): LimitRow | undefined {
    return this.#local.find(path, method, plan)
  }

  /** While the store is away, the take is decided at once. @param caller as in `Limiter.take` */
  ask(row: LimitRow, key: string, caller?: Caller): PendingTake {
    const pending = new PendingTake(row)
    const done = (take: Take | undefined) => pending.settle(this.#decide(row, key, caller, take))
    this.#takes.take(this.#rows.getOrInsertComputed(row, sharedRowOf), key, done, caller)
    return pending
  }

  close(): void {
    this.#local.close()
  }

  /** Never throws, because other requests wait for the same reply. @param take undefined while the store is away */
  #decide(row: LimitRow, key: string, caller: Caller | undefined, take: Take | undefined): Take | Error {
    try {
      if (take === undefined && isDenied(row)) return UNRECORDED
      if (!isCountedHere(row)) return take ?? UNCOUNTED
      if (take === undefined) return this.#local.take(row, key, caller, 'away')
      if (passes(row, take)) this.#local.take(row, key, caller, take)
      return take
    } catch (fault) {
      return fault instanceof Error ? fault : new Error(String(fault))
    }
  }
}

function isCountedHere({ onStoreFailure, beside }: LimitRow): boolean {
  return onStoreFailure === 'local' || (beside !== undefined && isCountedHere(beside))
}

function isDenied(row: LimitRow): boolean {
  return rowsOf(row).some(({ mode, onStoreFailure }) => mode === row.mode && onStoreFailure === 'deny')
}
