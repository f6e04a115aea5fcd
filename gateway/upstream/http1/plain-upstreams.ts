import { Deadlines } from '../../http/syntax/deadlines.ts'
import { Choice } from '../balancing/choice.ts'
import { createOrigin } from '../balancing/origin.ts'
import type { Address } from '../upstream-address.ts'
import type { UpstreamCall, UpstreamClient, UpstreamRequest, UpstreamResponse } from '../upstream-client.ts'
import type { UpstreamsOptions } from '../upstream-options.ts'
import { ConnectionPool, type PlainClientState, type PlainOrigin } from './connection-pool.ts'
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
  const { clock, headersMs, connectMs, maxConnections, maxWaiting = 0 } = options
  const deadlines = new Deadlines(clock)
  const waitingLine = new WaitingLine(maxWaiting)
  const origins = addresses.map((address): PlainOrigin => {
    const origin = createOrigin(address, options)
    const { health } = origin
    const pool = new ConnectionPool({
      address,
      connectMs,
      maxConnections,
      clock,
      health,
      deadlines,
      waitingLine,
    })
    return Object.assign(origin, { pool })
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
    waitingLine,
    closed: false,
  })
}

class PlainUpstreams implements UpstreamClient {
  readonly #origins: readonly PlainOrigin[]
  readonly #state: PlainClientState
  #closing: Promise<void> | undefined = undefined

  constructor(origins: readonly PlainOrigin[], state: PlainClientState) {
    this.#origins = origins
    this.#state = state
  }

  send(request: UpstreamRequest, response: UpstreamResponse): UpstreamCall {
    const exchange = new PlainExchange(this.#state, request, response)
    exchange.begin()
    return exchange
  }

  close(): Promise<void> {
    this.#state.closed = true
    this.#closing ??= Promise.all(this.#origins.map(({ pool }) => pool.close())).then(() => undefined)
    return this.#closing
  }
}
