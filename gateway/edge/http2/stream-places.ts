import type { ClientNetwork } from '../http1/client-networks.ts'
import type { StreamRoom } from '../http1/served-connection.ts'

export const MAX_STREAMS = 100

/**
 * What a stream counts as: `first` has the place of its connection, `further` one of the common room. The others have none, and
 * only get a response: `beyond share` of their address, or `beyond settings`, which the client was told.
 */
export type StreamPlace = 'first' | 'further' | 'beyond share' | 'beyond settings'

export function isWithoutPlace(place: StreamPlace): boolean {
  return place === 'beyond share' || place === 'beyond settings'
}

export class StreamPlaces {
  readonly #room: StreamRoom
  readonly #network: ClientNetwork
  #held = 0

  constructor(room: StreamRoom, network: ClientNetwork) {
    this.#room = room
    this.#network = network
  }

  /** @returns undefined when a further stream cannot even get a response */
  take(): StreamPlace | undefined {
    if (this.#held < MAX_STREAMS && (this.#held === 0 || this.#room.take(this.#network)))
      return this.#held++ === 0 ? 'first' : 'further'
    if (!this.#room.refuse()) return undefined
    return this.#held < MAX_STREAMS ? 'beyond share' : 'beyond settings'
  }

  leave(place: StreamPlace): void {
    if (isWithoutPlace(place)) this.#room.refused()
    // The place of the connection stays with those that remain.
    else if (--this.#held > 0) this.#room.release(this.#network)
  }
}
