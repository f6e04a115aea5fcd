export interface BodyPaceRule {
  /** Longest silence, and how far the client may fall behind the rate, milliseconds. */
  readonly graceMs: number
  /** 0: only silence counts. */
  readonly minBytesPerSecond: number
}

/**
 * By when more of a request body must come. A bucket of time: it begins with the full grace, runs down, and each byte
 * adds the time that it may take at the minimum rate, up to the full grace.
 */
export class BodyPace {
  readonly #graceMs: number
  readonly #msPerByte: number

  constructor({ graceMs, minBytesPerSecond }: BodyPaceRule) {
    this.#graceMs = graceMs
    this.#msPerByte = minBytesPerSecond === 0 ? Number.POSITIVE_INFINITY : 1000 / minBytesPerSecond
  }

  /** For a body that begins, or goes on after we held it back. @returns the deadline. */
  begin(nowMs: number): number {
    return nowMs + this.#graceMs
  }

  /** More has come. @param bytes more than 0 @returns the new deadline. */
  extend(deadlineMs: number, bytes: number, nowMs: number): number {
    return Math.min(deadlineMs + bytes * this.#msPerByte, nowMs + this.#graceMs)
  }
}
