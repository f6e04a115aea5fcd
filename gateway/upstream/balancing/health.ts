const FIRST_BACK_OFF_MS = 250
const LONGEST_BACK_OFF_MS = 10_000
/** Failures in a row, with no good response in between, after which an upstream is avoided. */
const MAX_FAILURES = 3
const FIRST_AVOIDED_MS = 1000

/**
 * Health of one upstream: learnt from its exchanges, and what its active checks say.
 *
 * When no connection can be made, it is not used for a back-off that doubles from 250 ms to 10 s. Then one exchange
 * probes it, while the others wait for the result or for the next back-off.
 *
 * When it fails three times in a row after connecting (or responds 502, 503 or 504), it is avoided if there is another
 * upstream: for 1 s, doubling up to 10 s, with one probe after each time. Without this, an upstream that fails
 * fast would have the fewest exchanges in flight and so get most of the traffic.
 */
export class Health {
  readonly #clock: () => number
  readonly #onChange: (healthy: boolean) => void
  #healthy = true
  #passesChecks = true
  #recoveredAtMs = Number.NEGATIVE_INFINITY
  #backOffMs = FIRST_BACK_OFF_MS
  #retryAtMs = 0
  /** An exchange probes whether connections can be made again. */
  #connectProbed = false
  #failures = 0
  #avoidedMs = FIRST_AVOIDED_MS
  #avoidedUntilMs = 0
  /** An exchange probes whether it responds again. */
  #responseProbed = false
  /** A good head has come since the probe began, and nothing has failed. */
  #isPromising = false

  /**
   * @param clock milliseconds, monotonic.
   * @param onChange called on each change of whether it can be connected to and passes its checks; it starts healthy.
   */
  constructor(clock: () => number, onChange: (healthy: boolean) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  /** On the clock; the remote past when it never was as bad as to recover. */
  get recoveredAtMs(): number {
    return this.#recoveredAtMs
  }

  /** It is as good as the others from now on. */
  recovered(): void {
    this.#recoveredAtMs = this.#clock()
  }

  get isHealthy(): boolean {
    return this.#healthy && this.#passesChecks
  }

  /** Its active health checks do not say that it is down. True without checks. */
  get passesChecks(): boolean {
    return this.#passesChecks
  }

  /** What its active health checks say. They know nothing of how it serves requests. */
  checked(passes: boolean): void {
    this.#become(this.#healthy, passes)
  }

  usable(): boolean {
    return this.#healthy || this.#clock() >= this.#retryAtMs
  }

  /** Any other upstream is preferred, however many exchanges it has in flight. */
  avoided(): boolean {
    return this.#failures >= MAX_FAILURES && this.#clock() < this.#avoidedUntilMs
  }

  /** A head with this status came. A failure counts at once; a success only by `succeeded`, because the body may break off. */
  responded(status: number): void {
    this.connected()
    if (isFailure(status)) this.exchangeFailed()
    else if (this.#responseProbed) this.#isPromising = true
  }

  /** An exchange is over with which the upstream did what it should. @param status of its head */
  succeeded(status: number): void {
    if (this.#failures > 0 && !isFailure(status)) this.#begin()
  }

  #begin(): void {
    if (this.#failures >= MAX_FAILURES) this.recovered()
    this.#failures = 0
    this.#responseProbed = false
    this.#isPromising = false
    this.#avoidedMs = FIRST_AVOIDED_MS
  }

  /** There was no whole response. @param status of its head, which may have been counted; 0: there was none */
  brokeOff(status: number): void {
    if (!isFailure(status)) this.exchangeFailed()
  }

  /** The exchange failed after the connection was made: no complete response that can be passed on. */
  exchangeFailed(): void {
    this.#failures += 1
    // While avoided, only a probe counts: other exchanges began earlier or had no other upstream.
    if (this.#failures < MAX_FAILURES || (this.#failures > MAX_FAILURES && !this.#responseProbed)) return
    this.#responseProbed = false
    this.#isPromising = false
    this.#avoidedUntilMs = this.#clock() + this.#avoidedMs
    this.#avoidedMs = Math.min(this.#avoidedMs * 2, LONGEST_BACK_OFF_MS)
  }

  /** End of the back-off, on the clock. */
  get retryAtMs(): number {
    return this.#retryAtMs
  }

  /** The next exchange goes to this upstream. */
  chosen(): void {
    if (this.#failures >= MAX_FAILURES && !this.avoided()) {
      // The response to the probe may go on for hours.
      if (this.#isPromising) this.#begin()
      else {
        this.#responseProbed = true
        this.#avoidedUntilMs = this.#clock() + this.#avoidedMs
      }
    }
    if (this.#healthy) return
    this.#connectProbed = true
    this.#retryAtMs = this.#clock() + this.#backOffMs
  }

  /** A connection could not be made. */
  connectFailed(): void {
    // Attempts that were made together fail together: they count once.
    if (!this.#healthy && !this.#connectProbed) return
    this.#connectProbed = false
    this.#backOffMs = this.#healthy ? FIRST_BACK_OFF_MS : Math.min(this.#backOffMs * 2, LONGEST_BACK_OFF_MS)
    this.#retryAtMs = this.#clock() + this.#backOffMs
    this.#become(false, this.#passesChecks)
  }

  /** A connection was made, or a response came on an open one. */
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

/** A status that says that the service behind the upstream did not respond. */
function isFailure(status: number): boolean {
  return status >= 502 && status <= 504
}
