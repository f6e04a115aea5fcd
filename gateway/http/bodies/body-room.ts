import { isOverShare } from '../rules/fair-share.ts'

const MIB = 1024 * 1024
/** Of all bodies that wait in memory, of those for one key, and of those from one address (IPv6: one /64). */
const MAX_BYTES = 64 * MIB
const MAX_OF_KEY_BYTES = 16 * MIB
const MAX_OF_NETWORK_BYTES = 8 * MIB

/** A body that waits in memory, and whose it is. */
export interface WaitingBody {
  readonly keyId: string
  readonly network: string
  /** Of it, that have come. Belongs to BodyRoom. */
  bytes: number
}

/**
 * The room for bodies that have to be whole before anything can be said about them. A key's name is no secret, so anyone can
 * begin one: room is taken by bytes that have come, not by those that are announced, and nobody has more than its share.
 */
export class BodyRoom {
  #bytes = 0
  readonly #ofKey = new Map<string, number>()
  readonly #ofNetwork = new Map<string, number>()

  /** @returns whether there is room for so many bytes more of the body. */
  take(body: WaitingBody, bytes: number): boolean {
    const ofKey = this.#ofKey.get(body.keyId) ?? 0
    const ofNetwork = this.#ofNetwork.get(body.network) ?? 0
    const free = MAX_OF_KEY_BYTES - ofKey
    const fits =
      this.#bytes + bytes <= MAX_BYTES && bytes <= free && ofNetwork + bytes <= MAX_OF_NETWORK_BYTES
    if (!fits || isOverShare({ own: ofNetwork, free, max: MAX_OF_KEY_BYTES })) return false
    body.bytes += bytes
    this.#change(body, bytes)
    return true
  }

  /** Nothing of the body waits any more. */
  release(body: WaitingBody): void {
    this.#change(body, -body.bytes)
    body.bytes = 0
  }

  #change({ keyId, network }: WaitingBody, bytes: number): void {
    this.#bytes += bytes
    addTo(this.#ofKey, keyId, bytes)
    addTo(this.#ofNetwork, network, bytes)
  }
}

function addTo(counts: Map<string, number>, name: string, bytes: number): void {
  const count = (counts.get(name) ?? 0) + bytes
  if (count > 0) counts.set(name, count)
  else counts.delete(name)
}
