import { Deadlines, type Timed } from '../edge/syntax/deadlines.ts'
import { Choice } from './balancing/choice.ts'
import { createOrigins, type Origin, type UpstreamsOptions } from './balancing/origin.ts'
import { RetryBudget } from './balancing/retry-budget.ts'
import { ConnectionPool } from './http1/http1-connection.ts'
import { Http1Exchange } from './http1/http1-exchange.ts'
import { Http2Exchange } from './http2/http2-exchange.ts'
import { SessionPool } from './http2/upstream-session.ts'
import type { Pool, PoolBounds } from './pool.ts'
import type { ClientState } from './pooled-exchange.ts'
import { parseAddress } from './upstream-address.ts'
import type { UpstreamCall, UpstreamRequest, UpstreamResponse } from './upstream-client.ts'

export class UpstreamClient {
  readonly state: ClientState<Pool<Timed>>
  /** True for HTTP/2, over which trailers and long calls can pass. */
  readonly speaksHttp2: boolean
  #closing: Promise<void> | undefined = undefined

  constructor(state: ClientState<Pool<Timed>>, speaksHttp2: boolean) {
    this.state = state
    this.speaksHttp2 = speaksHttp2
  }

  get targets(): readonly Origin[] {
    return this.state.choice.origins
  }

  /** Never throws. Calls `response` only after it has returned. */
  send(request: UpstreamRequest, response: UpstreamResponse): UpstreamCall {
    const exchange = this.speaksHttp2
      ? new Http2Exchange(this.state as ClientState<SessionPool>, request, response)
      : new Http1Exchange(this.state as ClientState<ConnectionPool>, request, response)
    exchange.begin()
    return exchange
  }

  /** Closes connections that the successor does not keep. Earlier requests still go through this client. */
  handOver(successor: UpstreamClient | undefined, bounds: PoolBounds): void {
    const kept = new Set(successor?.state.choice.origins.map(({ pool }) => pool))
    for (const { pool } of this.state.choice.origins) {
      if (kept.has(pool)) pool.bound(bounds)
      else void pool.close()
    }
  }

  close(): Promise<void> {
    const { choice } = this.state
    this.state.closed = true
    this.#closing ??= Promise.all(choice.origins.map(({ pool }) => pool.close())).then(() => undefined)
    return this.#closing
  }
}

/**
 * An upstream that is also in `before` keeps its connections and health. `before` does not change until it hands over.
 * @throws TypeError for an invalid URL, for no URL, or for URLs of both versions of HTTP
 */
export function createUpstreams(options: UpstreamsOptions, before?: UpstreamClient): UpstreamClient {
  const addresses = options.urls.map(parseAddress)
  const isHttp2 = addresses[0]?.isHttp2 === true
  if (addresses.some((address) => address.isHttp2 !== isHttp2))
    throw new TypeError('upstreams of HTTP/1.1 and of HTTP/2 in one group')
  const OwnPool = isHttp2 ? SessionPool : ConnectionPool
  const known = before?.speaksHttp2 === isHttp2 ? before.state : undefined
  const { clock, headersMs, policy, onRetry = () => undefined } = options
  const deadlines = known?.deadlines ?? new Deadlines(clock)
  const origins = createOrigins<Pool<Timed>>(addresses, options, {
    known: known?.choice.origins,
    createPool: (address, health) => new OwnPool({ ...options, address, health, deadlines }),
  })
  const retry = policy?.retry
  const budget = known?.retries
  const state: ClientState<Pool<Timed>> = {
    clock,
    headersMs,
    choice: new Choice(origins),
    retries: retry && (budget?.isOf(retry) ? budget : new RetryBudget(retry, clock, onRetry)),
    deadlines,
    closed: false,
  }
  return new UpstreamClient(state, isHttp2)
}
