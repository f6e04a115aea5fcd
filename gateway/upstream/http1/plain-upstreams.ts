import { Deadlines } from '../../http/syntax/deadlines.ts'
import { createOrigins } from '../balancing/origin.ts'
import { createState, PooledUpstreams } from '../pooled-upstreams.ts'
import type { Address } from '../upstream-address.ts'
import type { UpstreamClient } from '../upstream-client.ts'
import type { UpstreamsOptions } from '../upstream-options.ts'
import { ConnectionPool, type PlainClientState } from './connection-pool.ts'
import { PlainExchange } from './plain-exchange.ts'
import { WaitingLine } from './waiting-line.ts'

class PlainUpstreams extends PooledUpstreams<PlainClientState> {}

/**
 * Our own HTTP/1.1 client: without TLS, over TCP or a Unix socket.
 *
 * @throws TypeError when there is no upstream.
 */
export function createPlainUpstreams(
  addresses: readonly Address[],
  options: UpstreamsOptions,
  before?: UpstreamClient,
): UpstreamClient {
  const known = before instanceof PlainUpstreams ? before.state : undefined
  const deadlines = known?.deadlines ?? new Deadlines(options.clock)
  const waitingLine = known?.waitingLine ?? new WaitingLine(options.maxWaiting ?? 0)
  const origins = createOrigins(addresses, options, {
    known: known?.choice.origins,
    createPool: (address, health) =>
      new ConnectionPool({ ...options, address, health, deadlines, waitingLine }),
  })
  const state = createState(origins, options, { deadlines, retries: known?.retries })
  return new PlainUpstreams({ ...state, waitingLine }, PlainExchange)
}
