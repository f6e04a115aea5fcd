import { Deadlines } from '../http/syntax/deadlines.ts'
import { createOrigins } from './balancing/origin.ts'
import { ConnectionPool } from './http1/connection-pool.ts'
import { Http1Exchange } from './http1/http1-exchange.ts'
import { Http2Exchange } from './http2/http2-exchange.ts'
import { SessionPool } from './http2/session-pool.ts'
import { type ClientState, createState, PooledUpstreams } from './pooled-upstreams.ts'
import { type Address, parseAddress } from './upstream-address.ts'
import type { UpstreamClient } from './upstream-client.ts'
import type { UpstreamsOptions } from './upstream-options.ts'

class Http1Upstreams extends PooledUpstreams<ClientState<ConnectionPool>> {}
class Http2Upstreams extends PooledUpstreams<ClientState<SessionPool>> {}

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
  if (ofHttp2 === 0) return createHttp1(addresses, options, before)
  if (ofHttp2 < addresses.length) throw new TypeError('upstreams of HTTP/1.1 and of HTTP/2 in one group')
  return createHttp2(addresses, options, before)
}

function createHttp1(
  addresses: readonly Address[],
  options: UpstreamsOptions,
  before: UpstreamClient | undefined,
): UpstreamClient {
  const known = before instanceof Http1Upstreams ? before.state : undefined
  const deadlines = known?.deadlines ?? new Deadlines(options.clock)
  const origins = createOrigins(addresses, options, {
    known: known?.choice.origins,
    createPool: (address, health) => new ConnectionPool({ ...options, address, health, deadlines }),
  })
  const state = createState(origins, options, { deadlines, retries: known?.retries })
  return new Http1Upstreams(state, Http1Exchange, false)
}

function createHttp2(
  addresses: readonly Address[],
  options: UpstreamsOptions,
  before: UpstreamClient | undefined,
): UpstreamClient {
  const known = before instanceof Http2Upstreams ? before.state : undefined
  const deadlines = known?.deadlines ?? new Deadlines(options.clock)
  const origins = createOrigins(addresses, options, {
    known: known?.choice.origins,
    createPool: (address, health) => new SessionPool({ ...options, address, health, deadlines }),
  })
  const state = createState(origins, options, { deadlines, retries: known?.retries })
  return new Http2Upstreams(state, Http2Exchange, true)
}
