import { Deadlines } from '../../http/syntax/deadlines.ts'
import { createOrigin } from '../balancing/origin.ts'
import { createState, PooledUpstreams } from '../pooled-upstreams.ts'
import type { Address } from '../upstream-address.ts'
import type { UpstreamClient } from '../upstream-client.ts'
import type { UpstreamsOptions } from '../upstream-options.ts'
import { ConnectionPool } from './connection-pool.ts'
import { PlainExchange } from './plain-exchange.ts'
import { WaitingLine } from './waiting-line.ts'

/**
 * Our own HTTP/1.1 client: without TLS, over TCP or a Unix socket.
 *
 * @throws TypeError when there is no upstream.
 */
export function createPlainUpstreams(
  addresses: readonly Address[],
  options: UpstreamsOptions,
): UpstreamClient {
  const deadlines = new Deadlines(options.clock)
  const waitingLine = new WaitingLine(options.maxWaiting ?? 0)
  const origins = addresses.map((address) =>
    createOrigin(
      address,
      options,
      (health) => new ConnectionPool({ ...options, address, health, deadlines, waitingLine }),
    ),
  )
  const state = { ...createState(origins, options, deadlines), waitingLine }
  return new PooledUpstreams(state, PlainExchange)
}
