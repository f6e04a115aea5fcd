import { Deadlines } from '../edge/syntax/deadlines.ts'
import { Choice } from './balancing/choice.ts'
import { createOrigins } from './balancing/origin.ts'
import { RetryBudget } from './balancing/retry-budget.ts'
import { ConnectionPool } from './http1/connection-pool.ts'
import { Http1Exchange } from './http1/http1-exchange.ts'
import { Http2Exchange } from './http2/http2-exchange.ts'
import { SessionPool } from './http2/session-pool.ts'
import type { PoolOptions } from './pool.ts'
import { type ClientState, PooledUpstreams } from './pooled-upstreams.ts'
import { type Address, parseAddress } from './upstream-address.ts'
import type { UpstreamClient } from './upstream-client.ts'
import type { UpstreamsOptions } from './upstream-options.ts'

class Http1Upstreams extends PooledUpstreams<ConnectionPool> {}
class Http2Upstreams extends PooledUpstreams<SessionPool> {}

/**
 * The client for all configured upstreams: HTTP/1.1 over TCP, TLS or a Unix socket, or HTTP/2 over TCP or TLS.
 *
 * A request that finds every connection in use fails at once as `unreachable`.
 *
 * @param before a client of other options. Upstreams that it has too keep their connections and their health. It is not
 * changed until it hands over.
 * @throws TypeError when a URL is not valid, or there is none, or both versions are among them.
 */
export function createUpstreams(options: UpstreamsOptions, before?: UpstreamClient): UpstreamClient {
  const addresses = options.urls.map(parseAddress)
  const ofHttp2 = addresses.filter(({ isHttp2 }) => isHttp2).length
  if (ofHttp2 === 0) {
    const known = before instanceof Http1Upstreams ? before.state : undefined
    return new Http1Upstreams(
      stateOf(addresses, options, { known, Pool: ConnectionPool }),
      Http1Exchange,
      false,
    )
  }
  if (ofHttp2 < addresses.length) throw new TypeError('upstreams of HTTP/1.1 and of HTTP/2 in one group')
  const known = before instanceof Http2Upstreams ? before.state : undefined
  return new Http2Upstreams(stateOf(addresses, options, { known, Pool: SessionPool }), Http2Exchange, true)
}

interface StateSources<OwnPool> {
  /** The state of the client before. */
  readonly known: ClientState<OwnPool> | undefined
  readonly Pool: new (options: PoolOptions) => OwnPool
}

function stateOf<OwnPool>(
  addresses: readonly Address[],
  options: UpstreamsOptions,
  { known, Pool }: StateSources<OwnPool>,
): ClientState<OwnPool> {
  const { clock, headersMs, policy, onRetry = () => undefined } = options
  const deadlines = known?.deadlines ?? new Deadlines(clock)
  const origins = createOrigins(addresses, options, {
    known: known?.choice.origins,
    createPool: (address, health) => new Pool({ ...options, address, health, deadlines }),
  })
  const retry = policy?.retry
  const budget = known?.retries
  return {
    clock,
    headersMs,
    choice: new Choice(origins),
    retries: retry && (budget?.isOf(retry) ? budget : new RetryBudget(retry, clock, onRetry)),
    deadlines,
    closed: false,
  }
}
