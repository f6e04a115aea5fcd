import { hash, randomInt } from 'node:crypto'
import type { KeyTally } from '../storage/expiring-keys.ts'

/** In the front of a digest in base64url. */
const SENDER_CHARS = 8
/** A power of two. */
const COUNTS = 65_536
const FNV_PRIME = 0x01000193

/** Writes who has sent a message into the front of its digest, whose rest is still too long for two to be equal. */
export function withSender(digest: string, sender: string): string {
  return hash('sha256', sender, 'base64url').slice(0, SENDER_CHARS) + digest.slice(SENDER_CHARS)
}

/**
 * How many messages of each sender are in memory. The digests tell senders apart, so that what is read from a file counts too. One count is
 * that of several senders when there are many: a map would cost each message of a rare sender a third more memory.
 */
export class SenderTally implements KeyTally {
  readonly #counts = new Uint32Array(COUNTS)
  /** So that nobody can choose whom to share a count with. */
  readonly #secret = randomInt(2 ** 32)

  countOf(digest: string): number {
    return this.#counts[this.#placeOf(digest)] ?? 0
  }

  added(digest: string): void {
    const place = this.#placeOf(digest)
    this.#counts[place] = (this.#counts[place] ?? 0) + 1
  }

  removed(digest: string): void {
    const place = this.#placeOf(digest)
    this.#counts[place] = (this.#counts[place] ?? 0) - 1
  }

  /** FNV-1a of the sender. */
  #placeOf(digest: string): number {
    let place = this.#secret
    for (let at = 0; at < SENDER_CHARS; at++) place = Math.imul(place ^ digest.charCodeAt(at), FNV_PRIME)
    return (place ^ (place >>> 16)) & (COUNTS - 1)
  }
}
