/** Time between the announced timeout and our close, for a request that comes at the last moment. */
export const KEEP_ALIVE_MARGIN_MS = 1000
const NEVER = Number.POSITIVE_INFINITY

/** How long clients may take. */
export interface ClientTimeouts {
  /** From the first byte of a request, or from accept, to the end of its head. */
  readonly headersMs: number
  /** From the first byte of a request to its last; infinite: only `bodyPace` counts. */
  readonly requestMs: number
  readonly bodyPace: {
    /** Longest silence, and longest time behind the rate. */
    readonly graceMs: number
    /** 0: only silence counts. */
    readonly minBytesPerSecond: number
  }
  readonly keepAliveMs: number
  /** How long a client may take nothing of its response, unless the response says otherwise. */
  readonly idleMs: number
}

/** A head with more bytes is refused by the parser, one with more fields by `admit`. */
export interface HeadBounds {
  readonly maxBytes: number
  readonly maxFields: number
}

export interface DeadlineTerms {
  /** A change counts for the next connections. */
  readonly head: HeadBounds
  /** A change counts for the next requests. */
  readonly timeouts: ClientTimeouts
  /** Monotonic, milliseconds. */
  readonly steadyClock: () => number
}

/** Time by which a client must send more. A body begins with `graceMs`; each byte adds its time at the least rate. */
export class ConnectionDeadline {
  /** Infinite while nothing is expected of the client. */
  atMs: number
  readonly #terms: DeadlineTerms
  #timeouts: ClientTimeouts
  #idleAllowanceMs: number
  /** Start of the current request; infinite when its head came in one piece. */
  #startedMs = NEVER
  /** End of the time for the whole request. Time in which we hold the body back does not count. */
  #requestEndMs = NEVER
  /** Infinite while we do not hold the body back. */
  #heldBackMs = NEVER
  #isUnpaced = false

  constructor(terms: DeadlineTerms) {
    this.#terms = terms
    this.#timeouts = terms.timeouts
    this.#idleAllowanceMs = terms.timeouts.headersMs
    this.atMs = terms.steadyClock() + this.#idleAllowanceMs
  }

  get idleSinceMs(): number {
    return this.atMs - this.#idleAllowanceMs
  }

  idle(): void {
    this.#idleAllowanceMs = this.#terms.timeouts.keepAliveMs + KEEP_ALIVE_MARGIN_MS
    this.atMs = this.#terms.steadyClock() + this.#idleAllowanceMs
  }

  beginRequest(): void {
    this.#startedMs = NEVER
    this.#timeouts = this.#terms.timeouts
  }

  awaitHead(): void {
    if (this.#startedMs === NEVER) this.#startedMs = this.#terms.steadyClock()
    this.atMs = this.#startedMs + this.#timeouts.headersMs
  }

  beginBody(): void {
    const { bodyPace, requestMs } = this.#timeouts
    const nowMs = this.#terms.steadyClock()
    this.#heldBackMs = NEVER
    this.#isUnpaced = false
    this.#requestEndMs = Math.min(this.#startedMs, nowMs) + requestMs
    this.atMs = Math.min(nowMs + bodyPace.graceMs, this.#requestEndMs)
  }

  /** @param bytes more than 0 */
  extendBody(bytes: number): void {
    if (this.#isUnpaced) return
    const { graceMs, minBytesPerSecond } = this.#timeouts.bodyPace
    const earnedMs = this.atMs + (bytes * 1000) / minBytesPerSecond
    this.atMs = Math.min(earnedMs, this.#terms.steadyClock() + graceMs, this.#requestEndMs)
  }

  holdBodyBack(): void {
    this.#heldBackMs = this.#terms.steadyClock()
    this.atMs = NEVER
  }

  get isBodyHeldBack(): boolean {
    return this.#heldBackMs !== NEVER
  }

  resumeBody(): void {
    const nowMs = this.#terms.steadyClock()
    this.#requestEndMs += nowMs - this.#heldBackMs
    this.#heldBackMs = NEVER
    const paceEndMs = nowMs + this.#timeouts.bodyPace.graceMs
    this.atMs = this.#isUnpaced ? NEVER : Math.min(paceEndMs, this.#requestEndMs)
  }

  /** Lets the rest of the body take any time, because its reader has another bound. */
  endPace(): void {
    this.#isUnpaced = true
    this.atMs = NEVER
  }

  stop(): void {
    this.#heldBackMs = NEVER
    this.atMs = NEVER
  }
}
