import { Deadlines, type Timed } from '../edge/syntax/deadlines.ts'
import { Choice } from './balancing/choice.ts'
import { createOrigins, type UpstreamsOptions } from './balancing/origin.ts'
import { RetryBudget } from './balancing/retry-budget.ts'
import { ConnectionPool } from './http1/http1-connection.ts'
import { Http1Exchange } from './http1/http1-exchange.ts'
import { Http2Exchange } from './http2/http2-exchange.ts'
import { SessionPool } from './http2/upstream-session.ts'
import type { Pool, PoolBounds, PoolOptions } from './pool.ts'
import type { ClientState } from './pooled-exchange.ts'
import { type Address, parseAddress } from './upstream-address.ts'
import type { UpstreamCall, UpstreamRequest, UpstreamResponse, UpstreamTarget } from './upstream-client.ts'

type Exchange = UpstreamCall & { begin(): void }

export class UpstreamClient {
  readonly state: ClientState<Pool<Timed>>
  /** Trailers and calls that last can pass. */
  readonly speaksHttp2: boolean
  readonly #exchangeOf: (request: UpstreamRequest, response: UpstreamResponse) => Exchange
  #closing: Promise<void> | undefined = undefined

  constructor(
    state: ClientState<Pool<Timed>>,
    speaksHttp2: boolean,
    exchangeOf: (request: UpstreamRequest, response: UpstreamResponse) => Exchange,
  ) {
    this.state = state
    this.speaksHttp2 = speaksHttp2
    this.#exchangeOf = exchangeOf
  }

  get targets(): readonly UpstreamTarget[] {
    return this.state.choice.origins
  }

  /** Never throws. Calls the response only after it has returned. */
  send(request: UpstreamRequest, response: UpstreamResponse): UpstreamCall {
    const exchange = this.#exchangeOf(request, response)
    exchange.begin()
    return exchange
  }

  /**
   * New requests go to the successor, which `createUpstreams` made from this client. Other connections are closed: idle ones
   * at once, the rest when their exchange ends. Earlier requests still go through this client.
   */
  handOver(successor: UpstreamClient, bounds: PoolBounds): void {
    const kept = new Set(successor.state.choice.origins.map(({ pool }) => pool))
    for (const { pool } of this.state.choice.origins) {
      if (kept.has(pool)) pool.bound(bounds)
      else void pool.close()
    }
  }

  /** Earlier requests still go through this client. */
  retire(): void {
    for (const { pool } of this.state.choice.origins) void pool.close()
  }

  /** Closes idle connections at once and the others when their exchange ends. */
  close(): Promise<void> {
    const { choice } = this.state
    this.state.closed = true
    this.#closing ??= Promise.all(choice.origins.map(({ pool }) => pool.close())).then(() => undefined)
    return this.#closing
  }
}

/**
 * Makes the client for all upstreams of a group. A request that finds every connection in use fails at once as `unreachable`.
 *
 * @param before upstreams that it has too keep connections and health. It is not changed until it hands over.
 * @throws TypeError for a URL that is not valid, for none, or for both versions of HTTP
 */
export function createUpstreams(options: UpstreamsOptions, before?: UpstreamClient): UpstreamClient {
  const addresses = options.urls.map(parseAddress)
  const isHttp2 = addresses[0]?.isHttp2 === true
  if (addresses.some((address) => address.isHttp2 !== isHttp2))
    throw new TypeError('upstreams of HTTP/1.1 and of HTTP/2 in one group')
  const known = before?.speaksHttp2 === isHttp2 ? before.state : undefined
  if (isHttp2) {
    const state = stateOf(addresses, options, { known, Pool: SessionPool })
    return new UpstreamClient(state, true, (request, response) => new Http2Exchange(state, request, response))
  }
  const state = stateOf(addresses, options, { known, Pool: ConnectionPool })
  return new UpstreamClient(state, false, (request, response) => new Http1Exchange(state, request, response))
}

interface StateSources<OwnPool> {
  /** With pools of the same kind. */
  readonly known: ClientState<unknown> | undefined
  readonly Pool: new (options: PoolOptions) => OwnPool
}

function stateOf<OwnPool>(
  addresses: readonly Address[],
  options: UpstreamsOptions,
  { known, Pool }: StateSources<OwnPool>,
): ClientState<OwnPool> {
  const { clock, headersMs, policy, onRetry = () => undefined } = options
  const before = known as ClientState<OwnPool> | undefined
  const deadlines = before?.deadlines ?? new Deadlines(clock)
  const origins = createOrigins(addresses, options, {
    known: before?.choice.origins,
    createPool: (address, health) => new Pool({ ...options, address, health, deadlines }),
  })
  const retry = policy?.retry
  const budget = before?.retries
  return {
    clock,
    headersMs,
    choice: new Choice(origins),
    retries: retry && (budget?.isOf(retry) ? budget : new RetryBudget(retry, clock, onRetry)),
    deadlines,
    closed: false,
  }
}
