import { Deadlines } from '../../http/syntax/deadlines.ts'
import { Choice } from '../balancing/choice.ts'
import { createOrigin } from '../balancing/origin.ts'
import type { UpstreamsOptions } from '../create-upstreams.ts'
import type { Address } from '../upstream-address.ts'
import type { Flight, Upstream, UpstreamAnswer, UpstreamCall } from '../upstream-client.ts'
import type { Terms } from '../upstream-terms.ts'
import { UpstreamExchange } from './undici-exchange.ts'
import { type LanedOrigin, Lanes } from './undici-pool.ts'

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
