import { createOrigin } from '../balancing/origin.ts'
import { createState, PooledUpstreams } from '../pooled-upstreams.ts'
import type { Address } from '../upstream-address.ts'
import type { UpstreamClient } from '../upstream-client.ts'
import type { UpstreamsOptions } from '../upstream-options.ts'
import { UndiciExchange } from './undici-exchange.ts'
import { UndiciPool } from './undici-pool.ts'

/**
 * The client for upstreams with TLS, through undici.
 *
 * @throws TypeError when there is no upstream.
 */
export function createUndiciUpstreams(
  addresses: readonly Address[],
  options: UpstreamsOptions,
): UpstreamClient {
  const origins = addresses.map((address) =>
    createOrigin(address, options, (health) => new UndiciPool({ ...options, address, health })),
  )
  return new PooledUpstreams(createState(origins, options), UndiciExchange)
}
