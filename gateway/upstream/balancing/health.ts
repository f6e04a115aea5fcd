const FIRST_BACK_OFF_MS = 250
const LONGEST_BACK_OFF_MS = 10_000
/** Failures in a row after which a target is avoided. */
const MAX_FAILURES = 3
const FIRST_AVOIDED_MS = 1000

/**
 * Health of one upstream. When no connection can be made, other upstreams are preferred for a back-off of 250 ms, which doubles
 * up to 10 s. After three failures in a row they are preferred for 1 s, doubling up to 10 s. After each such time one exchange
 * probes the upstream. Without this, an upstream that fails fast would have the fewest exchanges in flight and get most of the
 * traffic.
 */
export class Health {
  readonly #clock: () => number
  readonly #onChange: (healthy: boolean) => void
  /** Attempts that are over: with a response below 500, with a 5xx one, or failed. `CountedAttempts` adds to `failed` too. */
  readonly attempts = { answered: 0, '5xx': 0, failed: 0 }
  #healthy = true
  #passesChecks = true
  /** Time of the last recovery, in the remote past when there was none. Only this class writes it. */
  recoveredAtMs = Number.NEGATIVE_INFINITY
  #backOffMs = FIRST_BACK_OFF_MS
  /** End of the back-off. Only this class writes it. */
  retryAtMs = 0
  #connectProbed = false
  /** Why it was not healthy the last time. */
  cause = ''
  #failures = 0
  #avoidedMs = FIRST_AVOIDED_MS
  #avoidedUntilMs = 0
  #responseProbed = false
  /** True once a good head has come since the probe began. */
  #isPromising = false

  /** It starts healthy. @param clock monotonic milliseconds */
  constructor(clock: () => number, onChange: (healthy: boolean) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  recovered(): void {
    this.recoveredAtMs = this.#clock()
  }

  get isHealthy(): boolean {
    return this.#healthy && this.#passesChecks
  }

  /** True also when there are no checks. */
  get passesChecks(): boolean {
    return this.#passesChecks
  }

  /** Takes the verdict of the active checks, which say nothing of how the upstream serves requests. */
  checked(passes: boolean, cause = ''): void {
    if (!passes) this.cause = cause
    this.#become(this.#healthy, passes)
  }

  usable(): boolean {
    return this.#healthy || this.#clock() >= this.retryAtMs
  }

  /** True while other ready upstreams are preferred, even if they are busier. */
  avoided(): boolean {
    return this.#failures >= MAX_FAILURES && this.#clock() < this.#avoidedUntilMs
  }

  /** A failure counts at once; a success only by `succeeded`, because the body may break off. */
  responded(status: number): void {
    this.connected()
    if (isFailure(status)) this.exchangeFailed()
    else if (this.#responseProbed) this.#isPromising = true
  }

  /** @param status of its head */
  succeeded(status: number): void {
    this.attempts[status >= 500 ? '5xx' : 'answered'] += 1
    if (this.#failures > 0 && !isFailure(status)) this.#begin()
  }

  #begin(): void {
    if (this.#failures >= MAX_FAILURES) this.recovered()
    this.#failures = 0
    this.#responseProbed = false
    this.#isPromising = false
    this.#avoidedMs = FIRST_AVOIDED_MS
  }

  /** @param status of its head; 0: there was none. A failure status has been counted already */
  brokeOff(status: number): void {
    this.attempts[status >= 500 ? '5xx' : 'failed'] += 1
    if (!isFailure(status)) this.exchangeFailed()
  }

  /** Counts a failure after the connection was made: a status of `isFailure`, or no whole response. */
  exchangeFailed(): void {
    this.#failures += 1
    // While avoided, only a probe counts: other exchanges began earlier or had no other upstream.
    if (this.#failures < MAX_FAILURES || (this.#failures > MAX_FAILURES && !this.#responseProbed)) return
    this.#responseProbed = false
    this.#isPromising = false
    this.#avoidedUntilMs = this.#clock() + this.#avoidedMs
    this.#avoidedMs = Math.min(this.#avoidedMs * 2, LONGEST_BACK_OFF_MS)
  }

  chosen(): void {
    if (this.#failures >= MAX_FAILURES && !this.avoided()) {
      // A good head is enough, because the body of a response may go on for hours.
      if (this.#isPromising) this.#begin()
      else {
        this.#responseProbed = true
        this.#avoidedUntilMs = this.#clock() + this.#avoidedMs
      }
    }
    if (this.#healthy) return
    this.#connectProbed = true
    this.retryAtMs = this.#clock() + this.#backOffMs
  }

  /** @param cause in the words of the system */
  connectFailed(cause = ''): void {
    this.cause = cause
    // Attempts that were made together fail together: they count once.
    if (!this.#healthy && !this.#connectProbed) return
    this.#connectProbed = false
    this.#backOffMs = this.#healthy ? FIRST_BACK_OFF_MS : Math.min(this.#backOffMs * 2, LONGEST_BACK_OFF_MS)
    this.retryAtMs = this.#clock() + this.#backOffMs
    this.#become(false, this.#passesChecks)
  }

  connected(): void {
    if (!this.#healthy) this.#become(true, this.#passesChecks)
  }

  #become(healthy: boolean, passesChecks: boolean): void {
    const before = this.isHealthy
    this.#healthy = healthy
    this.#passesChecks = passesChecks
    if (before === this.isHealthy) return
    if (!before) this.recovered()
    this.#onChange(!before)
  }
}

/** True for a status that says that the service behind the upstream did not respond. */
function isFailure(status: number): boolean {
  return status >= 502 && status <= 504
}
