import { Deadlines } from '../http/syntax/deadlines.ts'
import { createOrigins } from './balancing/origin.ts'
import { ConnectionPool, type Http1ClientState } from './http1/connection-pool.ts'
import { Http1Exchange } from './http1/http1-exchange.ts'
import { WaitingLine } from './http1/waiting-line.ts'
import { createState, PooledUpstreams } from './pooled-upstreams.ts'
import { parseAddress } from './upstream-address.ts'
import type { UpstreamClient } from './upstream-client.ts'
import type { UpstreamsOptions } from './upstream-options.ts'

class Http1Upstreams extends PooledUpstreams<Http1ClientState> {}

/**
 * The client for all configured upstreams: HTTP/1.1 over TCP, TLS or a Unix socket.
 *
 * A request that finds every connection in use and no room to wait fails as `unreachable`.
 *
 * @param before a client of other options. Upstreams that it has too keep their connections and their health. It is not
 * changed until it hands over.
 * @throws TypeError when a URL is not valid, or there is none.
 */
export function createUpstreams(options: UpstreamsOptions, before?: UpstreamClient): UpstreamClient {
  const known = before instanceof Http1Upstreams ? before.state : undefined
  const deadlines = known?.deadlines ?? new Deadlines(options.clock)
  const waitingLine = known?.waitingLine ?? new WaitingLine(options.maxWaiting ?? 0)
  const origins = createOrigins(options.urls.map(parseAddress), options, {
    known: known?.choice.origins,
    createPool: (address, health) =>
      new ConnectionPool({ ...options, address, health, deadlines, waitingLine }),
  })
  const state = createState(origins, options, { deadlines, retries: known?.retries })
  return new Http1Upstreams({ ...state, waitingLine }, Http1Exchange)
}
