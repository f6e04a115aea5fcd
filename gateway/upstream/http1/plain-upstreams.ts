import { Deadlines } from '../../http/syntax/deadlines.ts'
import { Choice } from '../balancing/choice.ts'
import { createOrigin } from '../balancing/origin.ts'
import type { UpstreamsOptions } from '../create-upstreams.ts'
import type { Address } from '../upstream-address.ts'
import type { Flight, Upstream, UpstreamAnswer, UpstreamCall } from '../upstream-client.ts'
import { Connections } from './connection-pool.ts'
import { PlainExchange } from './plain-exchange.ts'
import type { PlainOrigin, PlainTerms } from './plain-terms.ts'
import { Waiting } from './waiting-line.ts'

/**
 * The upstreams as our own HTTP/1.1 client reaches them: in the clear, over TCP or a Unix socket.
 *
 * @throws TypeError when there is none.
 */
export function createPlainUpstreams(addresses: readonly Address[], options: UpstreamsOptions): Upstream {
  const { clock, headersMs, connectMs, maxConnections, maxWaiting = 0 } = options
  const deadlines = new Deadlines(clock)
  const waiting = new Waiting(maxWaiting)
  const origins = addresses.map((address): PlainOrigin => {
    const origin = createOrigin(address, options)
    const { health } = origin
    const connections = new Connections({
      address,
      connectMs,
      maxConnections,
      clock,
      health,
      deadlines,
      waiting,
    })
    return Object.assign(origin, { connections })
  })
  const [first] = origins
  if (first === undefined) throw new TypeError('upstreams: at least one is needed')
  const choice = new Choice(origins)
  return new PlainUpstreams(origins, {
    clock,
    headersMs,
    connectMs,
    first,
    choice,
    deadlines,
    waiting,
    closed: false,
  })
}

class PlainUpstreams implements Upstream {
  readonly #origins: readonly PlainOrigin[]
  readonly #terms: PlainTerms
  #closing: Promise<void> | undefined = undefined

  constructor(origins: readonly PlainOrigin[], terms: PlainTerms) {
    this.#origins = origins
    this.#terms = terms
  }

  send(call: UpstreamCall, answer: UpstreamAnswer): Flight {
    const exchange = new PlainExchange(this.#terms, call, answer)
    exchange.begin()
    return exchange
  }

  close(): Promise<void> {
    this.#terms.closed = true
    this.#closing ??= Promise.all(this.#origins.map((origin) => origin.connections.close())).then(
      () => undefined,
    )
    return this.#closing
  }
}
