import type { OriginOptions } from './balancing/origin.ts'
import { createPlainUpstreams } from './http1/plain-upstreams.ts'
import { createUndiciUpstreams } from './undici/undici-upstreams.ts'
import { parseAddress } from './upstream-address.ts'
import type { Upstream } from './upstream-client.ts'

export interface UpstreamsOptions extends OriginOptions {
  /** At least one of `http://host:port`, `https://host:port`, `unix:/path.sock`. */
  readonly urls: readonly string[]
  /** From the request sent until the answer's head, milliseconds. */
  readonly headersMs: number
  /** How many calls may wait when every connection is in use, each at most `connectMs`; none unless it is said. */
  readonly maxWaiting?: number
}

/**
 * The upstreams behind the gateway. `clock` is monotonic milliseconds. `maxConnections` holds for each upstream; a call
 * that finds every connection in use, and no room to wait, is an `unreachable` fault. `onHealth` is told of changes
 * only; each upstream begins healthy.
 *
 * Upstreams in the clear are spoken to by our own client. When one of them is `https://` all are left to undici, where
 * nothing waits.
 *
 * @throws TypeError when a URL is not one of an upstream, or there is none.
 */
export function createUpstreams(options: UpstreamsOptions): Upstream {
  const addresses = options.urls.map(parseAddress)
  return addresses.some(({ secure }) => secure)
    ? createUndiciUpstreams(addresses, options)
    : createPlainUpstreams(addresses, options)
}
