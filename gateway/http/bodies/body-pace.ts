/** What is asked of a client that sends a request body. */
export interface BodyPaceRule {
  /** How long nothing may come, and how far the client may fall behind the rate, milliseconds. */
  readonly graceMs: number
  /** 0: only silence ends it. */
  readonly minBytesPerSecond: number
}

/**
 * By when more of a request body must come. The client has a store of time: it begins full, runs down, and each byte adds
 * to it what the byte may take at the minimum rate. What was sent fast cannot be saved up beyond the full store.
 */
export class BodyPace {
  readonly #graceMs: number
  readonly #msPerByte: number

  constructor({ graceMs, minBytesPerSecond }: BodyPaceRule) {
    this.#graceMs = graceMs
    this.#msPerByte = minBytesPerSecond === 0 ? Number.POSITIVE_INFINITY : 1000 / minBytesPerSecond
  }

  /** Of a body that begins, or goes on after it was held back by us. */
  begin(nowMs: number): number {
    return nowMs + this.#graceMs
  }

  /** @param bytes more than 0. */
  extend(deadlineMs: number, bytes: number, nowMs: number): number {
    return Math.min(deadlineMs + bytes * this.#msPerByte, nowMs + this.#graceMs)
  }
}
