import { Deadlines } from '../../http/syntax/deadlines.ts'
import { createOrigins } from '../balancing/origin.ts'
import { type ClientState, createState, PooledUpstreams } from '../pooled-upstreams.ts'
import type { Address } from '../upstream-address.ts'
import type { UpstreamClient } from '../upstream-client.ts'
import type { UpstreamsOptions } from '../upstream-options.ts'
import { UndiciExchange } from './undici-exchange.ts'
import { UndiciPool } from './undici-pool.ts'

class UndiciUpstreams extends PooledUpstreams<ClientState<UndiciPool>> {}

/**
 * The client for upstreams with TLS, through undici.
 *
 * @throws TypeError when there is no upstream.
 */
export function createUndiciUpstreams(
  addresses: readonly Address[],
  options: UpstreamsOptions,
  before?: UpstreamClient,
): UpstreamClient {
  const known = before instanceof UndiciUpstreams ? before.state : undefined
  const origins = createOrigins(addresses, options, {
    known: known?.choice.origins,
    createPool: (address, health) => new UndiciPool({ ...options, address, health }),
  })
  const deadlines = known?.deadlines ?? new Deadlines(options.clock)
  const state = createState(origins, options, { deadlines, retries: known?.retries })
  return new UndiciUpstreams(state, UndiciExchange)
}
