import { isOverShare } from '../rules/fair-share.ts'

const MIB = 1024 * 1024
/** Limits in bytes of the buffered bodies: of all, of one key, and of one address (IPv6: a /64). */
const MAX_BYTES = 64 * MIB
const MAX_OF_KEY_BYTES = 16 * MIB
const MAX_OF_NETWORK_BYTES = 8 * MIB

export interface WaitingBody {
  readonly keyId: string
  readonly network: string
  /** Reserved bytes. Only `BodyRoom` writes this. */
  bytes: number
}

/** Shares the room for whole bodies in memory. Counts received bytes, because anyone can announce many. */
export class BodyRoom {
  #bytes = 0
  readonly #ofKey = new Map<string, number>()
  readonly #ofNetwork = new Map<string, number>()

  take(body: WaitingBody, bytes: number): boolean {
    const ofKey = this.#ofKey.get(body.keyId) ?? 0
    const ofNetwork = this.#ofNetwork.get(body.network) ?? 0
    const exceeds = (taken: number, max: number) =>
      taken + bytes > max || isOverShare({ own: ofNetwork, free: max - taken, max })
    if (ofNetwork + bytes > MAX_OF_NETWORK_BYTES) return false
    if (exceeds(ofKey, MAX_OF_KEY_BYTES) || exceeds(this.#bytes, MAX_BYTES)) return false
    body.bytes += bytes
    this.#change(body, bytes)
    return true
  }

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
