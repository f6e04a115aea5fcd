import { createHmac } from 'node:crypto'

export interface NonceOptions {
  /** At least 32 random bytes; every process that answers for the same address needs the same. */
  readonly secret: Uint8Array
  /** Epoch milliseconds. */
  readonly clock: () => number
}

/** A nonce is handed out for this long, and accepted for this long after. */
export const NONCE_STEP_MS = 60_000

/**
 * The nonces of RFC 9449 sections 8 and 9 without a memory: an HMAC-SHA256 of the minute. A proof with one was made at
 * most two minutes ago; none can be made in advance.
 */
export class Nonces {
  readonly #options: NonceOptions
  #step = Number.NaN
  /** Of the step before, the step itself, and the next: another process's clock may be a little ahead. */
  #accepted: readonly string[] = []

  constructor(options: NonceOptions) {
    if (options.secret.length < 32) throw new TypeError('a secret of nonces must have at least 32 bytes')
    this.#options = options
  }

  /** What to send as `DPoP-Nonce` now. */
  current(): string {
    return this.#around()[1] as string
  }

  /** Whether the value is a nonce that is still good. */
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
