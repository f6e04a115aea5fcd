import type { ClientNetwork, ClientNetworks } from '../http1/client-networks.ts'

export type StreamEnd = 'complete' | 'reset by us' | 'reset by client'

/** Limit of remembered ended streams. HEADERS on an older one are a fault of the connection. */
const MAX_REMEMBERED = 400

export class StreamTable<S extends { readonly id: number }> {
  lastId = 0
  readonly #open = new Map<number, S>()
  readonly #ends = new Map<number, StreamEnd>()

  get size(): number {
    return this.#open.size
  }

  get(id: number): S | undefined {
    return this.#open.get(id)
  }

  add(stream: S): void {
    this.#open.set(stream.id, stream)
  }

  /** `visit` may end any stream. */
  visitAll(visit: (stream: S) => void): void {
    for (const stream of this.#open.values()) visit(stream)
  }

  /** Visits the open streams in turn, from the one behind the last visited. @param visit returns false to stop */
  takeTurns(visit: (stream: S) => boolean): void {
    let left = this.#open.size
    for (const [id, stream] of this.#open) {
      if (left-- === 0) return
      this.#open.delete(id)
      this.#open.set(id, stream)
      if (!visit(stream)) return
    }
  }

  end(id: number, how: StreamEnd): void {
    this.#open.delete(id)
    this.#ends.set(id, how)
    if (this.#ends.size <= MAX_REMEMBERED) return
    const [oldest] = this.#ends.keys()
    if (oldest !== undefined) this.#ends.delete(oldest)
  }

  /** @returns undefined when the stream is open, was never begun, or is forgotten */
  endOf(id: number): StreamEnd | undefined {
    return this.#ends.get(id)
  }

  /** True for a stream that has not begun (RFC 9113 section 5.1.1). Even ids would be ours, and we begin none. */
  isIdle(id: number): boolean {
    return id > this.lastId || id % 2 === 0
  }
}

export const MAX_STREAMS = 100

/**
 * `first` has the place of its connection, `further` has a place of its own. The others have no place and
 * are refused: they are beyond the share of their address, or beyond the announced settings.
 */
export type StreamPlace = 'first' | 'further' | 'beyond share' | 'beyond settings'

export function isWithoutPlace(place: StreamPlace): boolean {
  return place === 'beyond share' || place === 'beyond settings'
}

export class StreamPlaces {
  readonly #networks: ClientNetworks
  readonly #network: ClientNetwork
  #held = 0

  constructor(networks: ClientNetworks, network: ClientNetwork) {
    this.#networks = networks
    this.#network = network
  }

  /** @returns undefined when a further stream cannot even get a response */
  take(): StreamPlace | undefined {
    const isWithinSettings = this.#held < MAX_STREAMS
    if (isWithinSettings && (this.#held === 0 || this.#networks.hasRoom(this.#network))) {
      if (this.#held > 0) this.#networks.countStream(this.#network, 1)
      return this.#held++ === 0 ? 'first' : 'further'
    }
    if (!this.#networks.refuseStream()) return undefined
    return isWithinSettings ? 'beyond share' : 'beyond settings'
  }

  leave(place: StreamPlace): void {
    if (isWithoutPlace(place)) this.#networks.endRefusedStream()
    // A remaining stream keeps the place of the connection.
    else if (--this.#held > 0) this.#networks.countStream(this.#network, -1)
  }
}
