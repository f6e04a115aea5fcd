const FIRST_BACK_OFF_MS = 250
const LONGEST_BACK_OFF_MS = 10_000

/**
 * Whether an upstream is worth asking, learnt from what happens to it (passive health). One that cannot be connected
 * to is left alone for a back-off that doubles, 250 ms to 10 s; then one call finds out, while the others wait for
 * what it finds or for another back-off.
 */
export class Health {
  readonly #clock: () => number
  readonly #onChange: (healthy: boolean) => void
  #healthy = true
  #backOffMs = FIRST_BACK_OFF_MS
  #retryAtMs = 0
  #probed = false

  /** @param clock milliseconds, monotonic. @param onChange told of each change; it begins healthy. */
  constructor(clock: () => number, onChange: (healthy: boolean) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  usable(): boolean {
    return this.#healthy || this.#clock() >= this.#retryAtMs
  }

  /** End of the back-off, on the clock. */
  get retryAtMs(): number {
    return this.#retryAtMs
  }

  /** A call is on its way to it. */
  chosen(): void {
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
