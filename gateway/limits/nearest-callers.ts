import { createHmac, randomBytes } from 'node:crypto'
import type { Limiter } from './limiter.ts'
import type { LimitRow } from './table/limit-table.ts'
import type { Counters } from './windows/counters.ts'

export interface RowUse {
  readonly row: LimitRow
  readonly callers: number
  /** `caller 3f2a…` or `address 09bc…`, with other hashes in each run. `limit` follows the caller's plan. */
  readonly nearest: readonly { readonly caller: string; readonly hits: number; readonly limit: number }[]
}

const NEAREST = 10
/** Keys of all rows together. A look takes 1.5 ms. */
const KEYS_PER_LOOK = 5000
/** How many callers of a row a look sees at least. */
const MIN_KEYS = 20
const HASH_LENGTH = 12

interface Pass {
  keys: MapIterator<string>
  best: readonly string[]
}

/** Each look sees some callers of a row, and the best of the last look. */
export class NearestCallers {
  readonly #limiter: Pick<Limiter, 'inForce'>
  readonly #keysPerLook: number
  readonly #secret = randomBytes(32)
  readonly #passes = new WeakMap<Counters, Pass>()

  constructor(limiter: Pick<Limiter, 'inForce'>, keysPerLook = KEYS_PER_LOOK) {
    this.#limiter = limiter
    this.#keysPerLook = keysPerLook
  }

  look(): RowUse[] {
    const { nowMs, rows } = this.#limiter.inForce()
    const keys = Math.max(MIN_KEYS, Math.floor(this.#keysPerLook / rows.length))
    return rows.map(([row, counters]) => ({
      row,
      callers: counters.size,
      nearest: this.#nearestIn(counters, keys, nowMs).map(({ key, ...use }) => ({
        caller: this.#nameOf(key),
        ...use,
      })),
    }))
  }

  #nearestIn(counters: Counters, keys: number, nowMs: number) {
    const pass = this.#passes.getOrInsertComputed(counters, () => ({ keys: counters.keys(), best: [] }))
    const seen = new Set(pass.best)
    for (let left = keys; left > 0; left--) {
      const next = pass.keys.next()
      if (next.done) {
        pass.keys = counters.keys()
        break
      }
      seen.add(next.value)
    }
    const best = [...seen]
      .map((key) => ({ key, hits: counters.countOf(key, nowMs), limit: counters.limitOf(key) }))
      .filter(({ hits }) => hits > 0)
      .sort((one, other) => other.hits / other.limit - one.hits / one.limit)
      .slice(0, NEAREST)
    pass.best = best.map(({ key }) => key)
    return best
  }

  #nameOf(key: string): string {
    const digest = createHmac('sha256', this.#secret).update(key).digest('hex').slice(0, HASH_LENGTH)
    return `${key.startsWith('p:') ? 'caller' : 'address'} ${digest}`
  }
}
