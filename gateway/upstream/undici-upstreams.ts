import { Deadlines } from '../http1/deadlines.ts'
import type { Address } from './address.ts'
import { Choice } from './choice.ts'
import type { Flight, Upstream, UpstreamAnswer, UpstreamCall } from './door.ts'
import { UpstreamExchange } from './exchange.ts'
import { type LanedOrigin, Lanes } from './lanes.ts'
import { createOrigin } from './origin.ts'
import type { Terms } from './terms.ts'
import type { UpstreamsOptions } from './upstreams.ts'

/**
 * The upstreams as undici reaches them.
 *
 * @throws TypeError when there is none.
 */
export function createUndiciUpstreams(addresses: readonly Address[], options: UpstreamsOptions): Upstream {
  const { clock, headersMs, connectMs, maxConnections } = options
  const origins = addresses.map((address): LanedOrigin => {
    const origin = createOrigin(address, options)
    const { health } = origin
    return Object.assign(origin, { lanes: new Lanes({ address, connectMs, maxConnections, health }) })
  })
  const [first] = origins
  if (first === undefined) throw new TypeError('upstreams: at least one is needed')
  const choice = new Choice(origins)
  const deadlines = new Deadlines(clock)
  return new UndiciUpstreams(origins, {
    clock,
    headersMs,
    first,
    choice,
    deadlines,
    closed: false,
  })
}

class UndiciUpstreams implements Upstream {
  readonly #origins: readonly LanedOrigin[]
  readonly #terms: Terms<LanedOrigin>
  #closing: Promise<void> | undefined = undefined

  constructor(origins: readonly LanedOrigin[], terms: Terms<LanedOrigin>) {
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
