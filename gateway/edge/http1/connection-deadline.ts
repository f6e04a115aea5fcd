/** The time between the announced timeout and our close: a request just before the timeout must not meet the close. */
export const KEEP_ALIVE_MARGIN_MS = 1000
const NEVER = Number.POSITIVE_INFINITY

/** How long clients may take, milliseconds. */
export interface ClientTimeouts {
  /** From the first byte of a request, or from accept, to the end of its head. */
  readonly headersMs: number
  /** From the first byte of a request to its last; infinite: only `bodyPace` counts. */
  readonly requestMs: number
  readonly bodyPace: {
    /** Longest silence, and how far the client may fall behind the rate. */
    readonly graceMs: number
    /** 0: only silence counts. */
    readonly minBytesPerSecond: number
  }
  /** Between a response and the next request. */
  readonly keepAliveMs: number
  /** How long a client may take nothing of its response, unless the response says otherwise. */
  readonly idleMs: number
}

/** Bounds of the head of a request; `admit` refuses more fields. */
export interface HeadBounds {
  readonly maxBytes: number
  readonly maxFields: number
}

export interface DeadlineTerms {
  /** May change, for the next connections. */
  readonly head: HeadBounds
  /** May change; a request goes on with those that it began with. */
  readonly timeouts: ClientTimeouts
  /** Monotonic, milliseconds. */
  readonly steadyClock: () => number
}

/** The time by which a client must send more. A body begins with the full grace; each byte adds the time that the rate gives it. */
export class ConnectionDeadline {
  /** Infinite while nothing is expected of the client. */
  atMs: number
  readonly #terms: DeadlineTerms
  #timeouts: ClientTimeouts
  /** The time that an idle connection was given last. */
  #idleAllowanceMs: number
  /** Start of the current request; infinite unless its head came in several pieces. */
  #startedMs = NEVER
  /** The end of the time for the whole request. The time in which we held its body back does not count. */
  #requestEndMs = NEVER
  /** Since when we hold the body back; infinite while we do not. */
  #heldBackMs = NEVER
  /** True when something else bounds the body of the current request. */
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

  /** A part of the head has come. */
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
