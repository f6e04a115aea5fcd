import { createHmac } from 'node:crypto'

export interface NonceOptions {
  /** At least 32 random bytes; processes that serve the same address must share them. */
  readonly secret: Uint8Array
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
  /** The nonces of the previous, this and the next period: another process's clock may be slightly ahead. */
  #accepted: readonly string[] = []

  constructor(options: NonceOptions) {
    if (options.secret.length < 32) throw new TypeError('a secret of nonces must have at least 32 bytes')
    this.#options = options
  }

  /** The current value of `DPoP-Nonce`. */
  current(): string {
    return this.#around()[1] as string
  }

  /** Whether the value is a nonce that has not expired. */
  accepts(nonce: unknown): boolean {
    return this.#around().includes(nonce as string)
  }

  #around(): readonly string[] {
    const step = Math.floor(this.#options.clock() / NONCE_STEP_MS)
    if (step !== this.#step) {
      this.#step = step
      this.#accepted = [step - 1, step, step + 1].map((at) => this.#nonceOf(at))
    }
    return this.#accepted
  }

  #nonceOf(step: number): string {
    return createHmac('sha256', this.#options.secret).update(`DPoP-Nonce ${step}`).digest('base64url')
  }
}
