/** Tells whether to log a fault: a full disk fails every request, and the log may be on the same disk. */
export class RepeatedFault {
  readonly #repeatMs: number
  #loggedAtMs = Number.NEGATIVE_INFINITY
  cause: string | undefined = undefined

  constructor(repeatMs = 1000) {
    this.#repeatMs = repeatMs
  }

  /** True when the fault differs from the one logged last, or that was a while ago. */
  isDue(cause: string): boolean {
    const nowMs = performance.now()
    if (this.cause === cause && nowMs - this.#loggedAtMs < this.#repeatMs) return false
    this.cause = cause
    this.#loggedAtMs = nowMs
    return true
  }
}
