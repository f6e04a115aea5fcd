import type { FailureGroup } from '../auth/throttle.ts'
import type { StoreBreaker } from './store-breaker.ts'
import { MAX_STREAM, streamKey } from './store-events.ts'
import type { StoreKeys } from './store-keys.ts'

interface SharedFailuresOptions {
  readonly breaker: Pick<StoreBreaker, 'send'>
  readonly keys: StoreKeys
  readonly id: string
}

/** Tells the other gateways of bad credentials. What happens while the store is away is not told. */
export class SharedFailures implements FailureGroup {
  readonly #options: SharedFailuresOptions

  constructor(options: SharedFailuresOptions) {
    this.#options = options
  }

  keyOf(caller: string): string {
    return this.#options.keys.keyOf('failure', caller)
  }

  publish(key: string): void {
    const { breaker, keys, id } = this.#options
    const stream = streamKey(keys)
    const entry = ['kind', 'failed', 'hash', key, 'origin', id]
    breaker.send({
      args: ['XADD', stream, 'MAXLEN', '~', String(MAX_STREAM), '*', ...entry],
      key: stream,
      done: () => undefined,
    })
  }
}
