import { Deadlines } from '../../http/syntax/deadlines.ts'
import { Choice } from '../balancing/choice.ts'
import { createOrigin } from '../balancing/origin.ts'
import type { ClientState } from '../client-state.ts'
import type { Address } from '../upstream-address.ts'
import type { UpstreamCall, UpstreamClient, UpstreamRequest, UpstreamResponse } from '../upstream-client.ts'
import type { UpstreamsOptions } from '../upstream-options.ts'
import { UndiciExchange } from './undici-exchange.ts'
import { type UndiciOrigin, UndiciPool } from './undici-pool.ts'

/**
 * The client for upstreams with TLS, through undici.
 *
 * @throws TypeError when there is no upstream.
 */
export function createUndiciUpstreams(
  addresses: readonly Address[],
  options: UpstreamsOptions,
): UpstreamClient {
  const { clock, headersMs, connectMs, maxConnections } = options
  const origins = addresses.map((address): UndiciOrigin => {
    const origin = createOrigin(address, options)
    const { health } = origin
    return Object.assign(origin, { pool: new UndiciPool({ address, connectMs, maxConnections, health }) })
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

class UndiciUpstreams implements UpstreamClient {
  readonly #origins: readonly UndiciOrigin[]
  readonly #state: ClientState<UndiciOrigin>
  #closing: Promise<void> | undefined = undefined

  constructor(origins: readonly UndiciOrigin[], state: ClientState<UndiciOrigin>) {
    this.#origins = origins
    this.#state = state
  }

  send(request: UpstreamRequest, response: UpstreamResponse): UpstreamCall {
    const exchange = new UndiciExchange(this.#state, request, response)
    exchange.begin()
    return exchange
  }

  close(): Promise<void> {
    this.#state.closed = true
    this.#closing ??= Promise.all(this.#origins.map(({ pool }) => pool.close())).then(() => undefined)
    return this.#closing
  }
}
