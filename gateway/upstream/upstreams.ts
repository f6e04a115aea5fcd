import { Choice } from './choice.ts'
import { Deadlines } from './deadlines.ts'
import type { Flight, Upstream, UpstreamAnswer, UpstreamCall } from './door.ts'
import { UpstreamExchange } from './exchange.ts'
import { createOrigin, type Origin, type OriginOptions } from './origin.ts'
import type { Terms } from './terms.ts'

export interface UpstreamsOptions extends OriginOptions {
  /** At least one of `http://host:port`, `https://host:port`, `unix:/path.sock`. */
  readonly urls: readonly string[]
  /** From the request sent until the answer's head, milliseconds. */
  readonly headersMs: number
  /** Between two pieces of the answer's body, milliseconds; a receiver that holds the body back stops it. */
  readonly bodyIdleMs: number
}

/**
 * The upstreams behind the gateway. `clock` is monotonic milliseconds. `maxConnections` holds for each upstream and is
 * at least what may be in flight at once, for nothing queues here: a call that finds every connection in use is an
 * `unreachable` fault. `onHealth` is told of changes only; each upstream begins healthy.
 *
 * @throws TypeError when a URL is not one of an upstream, or there is none.
 */
export function createUpstreams(options: UpstreamsOptions): Upstream {
  const origins = options.urls.map((url) => createOrigin(url, options))
  const [first] = origins
  if (first === undefined) throw new TypeError('upstreams: at least one is needed')
  const { clock, headersMs, bodyIdleMs } = options
  return new Upstreams(origins, {
    clock,
    headersMs,
    bodyIdleMs,
    first,
    choice: new Choice(origins),
    deadlines: new Deadlines(clock),
    closed: false,
  })
}

class Upstreams implements Upstream {
  readonly #origins: readonly Origin[]
  readonly #terms: Terms
  #closing: Promise<void> | undefined = undefined

  constructor(origins: readonly Origin[], terms: Terms) {
    this.#origins = origins
    this.#terms = terms
  }

  send(call: UpstreamCall, answer: UpstreamAnswer): Flight {
    const exchange = new UpstreamExchange(this.#terms, call, answer)
    exchange.begin()
    return exchange
  }

  close(): Promise<void> {
    this.#terms.closed = true
    this.#closing ??= Promise.all(this.#origins.map((origin) => origin.lanes.close())).then(() => undefined)
    return this.#closing
  }
}
