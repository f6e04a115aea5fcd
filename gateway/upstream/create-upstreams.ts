import { createPlainUpstreams } from './http1/plain-upstreams.ts'
import { createUndiciUpstreams } from './undici/undici-upstreams.ts'
import { parseAddress } from './upstream-address.ts'
import type { UpstreamClient } from './upstream-client.ts'
import type { UpstreamsOptions } from './upstream-options.ts'

/**
 * The client for all configured upstreams. Plain HTTP and Unix sockets go through our own HTTP/1.1 client. If any
 * upstream is `https://`, all go through undici, where no request waits for a connection.
 *
 * A request that finds every connection in use and no room to wait fails as `unreachable`.
 *
 * @param before a client of other options. Upstreams that it has too keep their connections and their health, unless one of
 * the two needs undici and the other does not. It is not changed until it hands over.
 * @throws TypeError when a URL is not valid, or there is none.
 */
export function createUpstreams(options: UpstreamsOptions, before?: UpstreamClient): UpstreamClient {
  const addresses = options.urls.map(parseAddress)
  return addresses.some(({ secure }) => secure)
    ? createUndiciUpstreams(addresses, options, before)
    : createPlainUpstreams(addresses, options, before)
}
