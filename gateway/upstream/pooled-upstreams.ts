import type { Deadlines, Timed } from '../edge/syntax/deadlines.ts'
import type { Choice } from './balancing/choice.ts'
import type { Origin } from './balancing/origin.ts'
import type { RetryBudget } from './balancing/retry-budget.ts'
import type { Pool, PoolBounds } from './pool.ts'
import type {
  UpstreamCall,
  UpstreamClient,
  UpstreamRequest,
  UpstreamResponse,
  UpstreamTarget,
} from './upstream-client.ts'

/** What all exchanges of an upstream client share. Times in milliseconds. */
export interface ClientState<OwnPool> {
  readonly clock: () => number
  readonly headersMs: number
  readonly choice: Choice<Origin<OwnPool>>
  /** Undefined: no response makes a request go out again. */
  readonly retries: RetryBudget | undefined
  readonly deadlines: Deadlines
  /** No exchange starts any more. Written by `close`. */
  closed: boolean
}

type ExchangeClass<OwnPool> = new (
  state: ClientState<OwnPool>,
  request: UpstreamRequest,
  response: UpstreamResponse,
) => UpstreamCall & { begin(): void }

/** A client whose exchanges take their connections from the pools of the upstreams. */
export class PooledUpstreams<OwnPool extends Pool<Timed>> implements UpstreamClient {
  readonly state: ClientState<OwnPool>
  readonly #Exchange: ExchangeClass<OwnPool>
  readonly speaksHttp2: boolean
  #closing: Promise<void> | undefined = undefined

  constructor(state: ClientState<OwnPool>, Exchange: ExchangeClass<OwnPool>, speaksHttp2: boolean) {
    this.speaksHttp2 = speaksHttp2
    this.state = state
    this.#Exchange = Exchange
  }

  get targets(): readonly UpstreamTarget[] {
    return this.state.choice.origins
  }

  send(request: UpstreamRequest, response: UpstreamResponse): UpstreamCall {
    const exchange = new this.#Exchange(this.state, request, response)
    exchange.begin()
    return exchange
  }

  handOver(successor: UpstreamClient, bounds: PoolBounds): void {
    const kept: readonly Origin[] = successor instanceof PooledUpstreams ? successor.state.choice.origins : []
    const pools = new Set(kept.map(({ pool }) => pool))
    for (const { pool } of this.state.choice.origins) {
      if (pools.has(pool)) pool.bound(bounds)
      else void pool.close()
    }
  }

  retire(): void {
    for (const { pool } of this.state.choice.origins) void pool.close()
  }

  close(): Promise<void> {
    const { choice } = this.state
    this.state.closed = true
    this.#closing ??= Promise.all(choice.origins.map(({ pool }) => pool.close())).then(() => undefined)
    return this.#closing
  }
}
