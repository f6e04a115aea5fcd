import { createHmac } from 'node:crypto'

interface NonceOptions {
  /** At least 32 bytes that nobody can guess; processes that serve the same address must share them. They may change. */
  readonly secret: () => Uint8Array
  /** Epoch milliseconds. */
  readonly clock: () => number
}

/** A nonce is issued for this long, and accepted for as long again. */
export const NONCE_STEP_MS = 60_000

/**
 * Stateless nonces (RFC 9449 sections 8 and 9): an HMAC-SHA256 of the current minute. A proof with one was made at most
 * two minutes ago.
 */
export class Nonces {
  readonly #options: NonceOptions
  #step = Number.NaN
  #secret: Uint8Array
  /** The nonces of the previous, this and the next period: another process's clock may be slightly ahead. */
  #accepted: readonly string[] = []

  constructor(options: NonceOptions) {
    this.#options = options
    this.#secret = options.secret()
    if (this.#secret.length < 32) throw new TypeError('a secret of nonces must have at least 32 bytes')
  }

  /** The current value of `DPoP-Nonce`. */
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
