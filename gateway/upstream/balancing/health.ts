const FIRST_BACK_OFF_MS = 250
const LONGEST_BACK_OFF_MS = 10_000
/** So many failures in a row, with no good response in between, are no accident. */
const MAX_FAILURES = 3
const FIRST_AVOIDED_MS = 1000

/**
 * Whether an upstream is worth asking, learnt from what happens to it (passive health). One that cannot be connected
 * to is left alone for a back-off that doubles, 250 ms to 10 s; then one call finds out, while the others wait for
 * what it finds or for another back-off.
 *
 * One that takes connections and then fails, or responds 502, 503 or 504, three times in a row is avoided as long as there
 * is another: for 1 s, which doubles up to 10 s, and between two such times one call finds out. Least pending alone
 * would send it the most, because it is so quickly done.
 */
export class Health {
  readonly #clock: () => number
  readonly #onChange: (healthy: boolean) => void
  #healthy = true
  #backOffMs = FIRST_BACK_OFF_MS
  #retryAtMs = 0
  #probed = false
  #failures = 0
  #avoidedMs = FIRST_AVOIDED_MS
  #avoidedUntilMs = 0
  /** A call finds out whether it has recovered. */
  #tried = false

  /** @param clock milliseconds, monotonic. @param onChange told of each change; it begins healthy. */
  constructor(clock: () => number, onChange: (healthy: boolean) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  usable(): boolean {
    return this.#healthy || this.#clock() >= this.#retryAtMs
  }

  /** Another one is to be preferred, whatever it has in flight. */
  avoided(): boolean {
    return this.#failures >= MAX_FAILURES && this.#clock() < this.#avoidedUntilMs
  }

  /** A response came, with this status. */
  responded(status: number): void {
    this.alive()
    if (status >= 502 && status <= 504) this.brokeDown()
    else if (this.#failures > 0) {
      this.#failures = 0
      this.#tried = false
      this.#avoidedMs = FIRST_AVOIDED_MS
    }
  }

  /** A connection was there, but a response that could be passed on did not come, or not wholly. */
  brokeDown(): void {
    this.#failures += 1
    // Beyond that many it is only the call that finds out which counts: others were under way, or had no choice.
    if (this.#failures < MAX_FAILURES || (this.#failures > MAX_FAILURES && !this.#tried)) return
    this.#tried = false
    this.#avoidedUntilMs = this.#clock() + this.#avoidedMs
    this.#avoidedMs = Math.min(this.#avoidedMs * 2, LONGEST_BACK_OFF_MS)
  }

  /** End of the back-off, on the clock. */
  get retryAtMs(): number {
    return this.#retryAtMs
  }

  /** A call is on its way to it. */
  chosen(): void {
    if (this.#failures >= MAX_FAILURES && !this.avoided()) {
      this.#tried = true
      this.#avoidedUntilMs = this.#clock() + this.#avoidedMs
    }
    if (this.#healthy) return
    this.#probed = true
    this.#retryAtMs = this.#clock() + this.#backOffMs
  }

  /** A connection could not be made. */
  failed(): void {
    // Calls that were under way together fail together, and count as one failure.
    if (!this.#healthy && !this.#probed) return
    this.#probed = false
    this.#backOffMs = this.#healthy ? FIRST_BACK_OFF_MS : Math.min(this.#backOffMs * 2, LONGEST_BACK_OFF_MS)
    this.#retryAtMs = this.#clock() + this.#backOffMs
    this.#become(false)
  }

  /** A connection was made, or an answer came on one that stood already. */
  alive(): void {
    this.#become(true)
  }

  #become(healthy: boolean): void {
    if (this.#healthy === healthy) return
    this.#healthy = healthy
    this.#onChange(healthy)
  }
}
