import { createHmac } from 'node:crypto'

interface NonceOptions {
  /** At least 32 bytes that nobody can guess; gateways of one address must share them. They may change. */
  readonly secret: () => Uint8Array
  readonly clock: () => number
}

/** A nonce is accepted for twice as long. */
export const NONCE_STEP_MS = 60_000

/** Stateless nonces (RFC 9449 sections 8 and 9): an HMAC-SHA256 of the minute. A proof with one is two minutes old at most. */
export class Nonces {
  readonly #options: NonceOptions
  #step = Number.NaN
  #secret: Uint8Array
  /** The previous, this and the next minute's: another gateway's clock may be ahead. */
  #accepted: readonly string[] = []

  constructor(options: NonceOptions) {
    this.#options = options
    this.#secret = options.secret()
    if (this.#secret.length < 32) throw new TypeError('a secret of nonces must have at least 32 bytes')
  }

  current(): string {
    return this.#around()[1] as string
  }

  accepts(nonce: unknown): boolean {
    return this.#around().includes(nonce as string)
  }

  #around(): readonly string[] {
    const step = Math.floor(this.#options.clock() / NONCE_STEP_MS)
    const secret = this.#options.secret()
    if (step !== this.#step || secret !== this.#secret) {
      this.#step = step
      this.#secret = secret
      this.#accepted = [step - 1, step, step + 1].map((at) =>
        createHmac('sha256', secret).update(`DPoP-Nonce ${at}`).digest('base64url'),
      )
    }
    return this.#accepted
  }
}
