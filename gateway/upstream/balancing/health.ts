const FIRST_BACK_OFF_MS = 250
const LONGEST_BACK_OFF_MS = 10_000
const MAX_FAILURES = 3
const FIRST_AVOIDED_MS = 1000

/**
 * Health of one upstream. When no connection can be made, others are preferred for a back-off that doubles. After
 * `MAX_FAILURES` in a row, others are preferred for a time that doubles too. Then one exchange is a probe. Otherwise
 * an upstream that fails fast would have the fewest exchanges in flight, and get most of the traffic.
 */
export class Health {
  readonly #clock: () => number
  readonly #onChange: (healthy: boolean) => void
  /** Attempts that are over. `CountedAttempts` adds to `failed` too. */
  readonly attempts = { answered: 0, '5xx': 0, failed: 0 }
  #healthy = true
  /** True also without checks. Only this class writes it. */
  passesChecks = true
  /** `-Infinity` when there was no recovery. Only this class writes it. */
  recoveredAtMs = Number.NEGATIVE_INFINITY
  #backOffMs = FIRST_BACK_OFF_MS
  /** End of the back-off. Only this class writes it. */
  retryAtMs = 0
  #connectProbed = false
  cause = ''
  #failures = 0
  #avoidedMs = FIRST_AVOIDED_MS
  #avoidedUntilMs = 0
  #responseProbed = false
  /** True once a good head has come since the probe began. */
  #isPromising = false

  /** Starts healthy. @param clock monotonic milliseconds */
  constructor(clock: () => number, onChange: (healthy: boolean) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  recovered(): void {
    this.recoveredAtMs = this.#clock()
  }

  get isHealthy(): boolean {
    return this.#healthy && this.passesChecks
  }

  /** Does not change the count of failures in a row, because checks do not show how requests are served. */
  checked(passes: boolean, cause = ''): void {
    if (!passes) this.cause = cause
    this.#become(this.#healthy, passes)
  }

  usable(): boolean {
    return this.#healthy || this.#clock() >= this.retryAtMs
  }

  /** True while other ready upstreams are preferred, even busier ones. */
  avoided(): boolean {
    return this.#failures >= MAX_FAILURES && this.#clock() < this.#avoidedUntilMs
  }

  /** See `CircuitBreaker.responded`. */
  responded(status: number): void {
    this.connected()
    if (isFailure(status)) this.exchangeFailed()
    else if (this.#responseProbed) this.#isPromising = true
  }

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

  /** See `CircuitBreaker.brokeOff`. */
  brokeOff(status: number): void {
    this.attempts[status >= 500 ? '5xx' : 'failed'] += 1
    if (!isFailure(status)) this.exchangeFailed()
  }

  exchangeFailed(): void {
    this.#failures += 1
    // While the upstream is avoided, only a probe counts, because other exchanges began earlier or had no other upstream.
    if (this.#failures < MAX_FAILURES || (this.#failures > MAX_FAILURES && !this.#responseProbed)) return
    this.#responseProbed = false
    this.#isPromising = false
    this.#avoidedUntilMs = this.#clock() + this.#avoidedMs
    this.#avoidedMs = Math.min(this.#avoidedMs * 2, LONGEST_BACK_OFF_MS)
  }

  chosen(): void {
    if (this.#failures >= MAX_FAILURES && !this.avoided()) {
      // A good head is enough, because the body may go on for hours.
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

  connectFailed(cause = ''): void {
    this.cause = cause
    // Attempts that were made together fail together, and count once.
    if (!this.#healthy && !this.#connectProbed) return
    this.#connectProbed = false
    this.#backOffMs = this.#healthy ? FIRST_BACK_OFF_MS : Math.min(this.#backOffMs * 2, LONGEST_BACK_OFF_MS)
    this.retryAtMs = this.#clock() + this.#backOffMs
    this.#become(false, this.passesChecks)
  }

  connected(): void {
    if (!this.#healthy) this.#become(true, this.passesChecks)
  }

  #become(healthy: boolean, passesChecks: boolean): void {
    const before = this.isHealthy
    this.#healthy = healthy
    this.passesChecks = passesChecks
    if (before === this.isHealthy) return
    if (!before) this.recovered()
    this.#onChange(!before)
  }
}

/** True when the service behind the upstream did not respond. */
function isFailure(status: number): boolean {
  return status >= 502 && status <= 504
}
