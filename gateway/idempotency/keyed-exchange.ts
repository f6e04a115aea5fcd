import { type KeptResponse, statusOf } from './key-record.ts'
import type { KeyKeeper } from './key-table.ts'

/** Statuses by which a service says that it has done nothing. */
const NOT_CARRIED_OUT: ReadonlySet<number> = new Set([408, 425, 429])

export class KeyedExchange {
  readonly #keeper: Pick<KeyKeeper, 'finish'>
  readonly #held: unknown
  readonly #maxBytes: number
  #status = 0
  #mayRetry = false
  #fields = ''
  /** latin1. */
  #body = ''
  #bytes = 0
  #isWhole = false
  #isSettled = false
  #isDurable = false
  #fault: Error | undefined
  #whenDurable: ((error: Error | undefined) => void) | undefined

  /** @param maxBytes of a kept body */
  constructor(keeper: Pick<KeyKeeper, 'finish'>, held: unknown, maxBytes: number) {
    this.#keeper = keeper
    this.#held = held
    this.#maxBytes = maxBytes
  }

  /** @param fields as in `KeptResponse` @param mayRetry true when the response has Retry-After */
  head(status: number, fields: string, mayRetry: boolean): void {
    this.#status = status
    this.#fields = fields
    this.#mayRetry = mayRetry
  }

  /** True while the body is short enough to be kept. While it is, the service need not wait for a slow client. */
  get isKeeping(): boolean {
    return this.#bytes <= this.#maxBytes
  }

  /** @param piece may change afterwards */
  add(piece: Buffer): void {
    this.#bytes += piece.length
    this.#body = this.isKeeping ? this.#body + piece.toString('latin1') : ''
  }

  complete(): void {
    this.#isWhole = true
  }

  /**
   * Ends the key, once. @param isSent true when the service may act on the request
   * @returns undefined when nothing must wait for `whenKnown`
   */
  settle(isSent: boolean): this | undefined {
    if (this.#isSettled) return undefined
    this.#isSettled = true
    this.#keeper.finish(this.#held, this.#outcome(isSent), (error) => {
      this.#isDurable = true
      this.#fault = error
      this.#whenDurable?.(error)
    })
    this.#body = ''
    return this.#isDurable && this.#fault === undefined ? undefined : this
  }

  /** @param run called once, when the outcome is durable, or with an error when it cannot be written */
  whenKnown(run: (error: Error | undefined) => void): void {
    if (this.#isDurable) run(this.#fault)
    else this.#whenDurable = run
  }

  #outcome(isSent: boolean): KeptResponse | 'free' | 'unknown' {
    if (!this.#isWhole) return isSent ? 'unknown' : 'free'
    const status = this.#status
    if (NOT_CARRIED_OUT.has(status) || (status === 503 && this.#mayRetry)) return 'free'
    if (status >= 500 && status !== 501) return 'unknown'
    if (!this.isKeeping) return statusOf({ status })
    return { status, fields: this.#fields, body: this.#body }
  }
}
