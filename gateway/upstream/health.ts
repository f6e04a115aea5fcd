const FIRST_BACK_OFF_MS = 250
const LONGEST_BACK_OFF_MS = 10_000

/**
 * Whether an upstream is worth asking, learnt from what happens to it (passive health). One that cannot be connected
 * to is left alone for a back-off that doubles with each failure; then one attempt at a time finds out.
 */
export class Health {
  readonly #clock: () => number
  readonly #onChange: (healthy: boolean) => void
  #healthy = true
  #backOffMs = FIRST_BACK_OFF_MS
  #retryAtMs = 0
  #attempts = 0

  /** @param clock milliseconds, monotonic. @param onChange told of each change; it begins healthy. */
  constructor(clock: () => number, onChange: (healthy: boolean) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  usable(): boolean {
    return this.#healthy || (this.#attempts === 0 && this.#clock() >= this.#retryAtMs)
  }

  /** End of the back-off, on the clock. */
  get retryAtMs(): number {
    return this.#retryAtMs
  }

  attemptBegan(): void {
    this.#attempts += 1
  }

  /** The attempt was given up on our side: nothing is learnt. */
  attemptGivenUp(): void {
    this.#attempts -= 1
  }

  attemptSucceeded(): void {
    this.#attempts -= 1
    this.alive()
  }

  attemptFailed(): void {
    this.#attempts -= 1
    const nowMs = this.#clock()
    // Attempts that were under way together fail together, and count as one failure.
    if (!this.#healthy && nowMs < this.#retryAtMs) return
    this.#backOffMs = this.#healthy ? FIRST_BACK_OFF_MS : Math.min(this.#backOffMs * 2, LONGEST_BACK_OFF_MS)
    this.#retryAtMs = nowMs + this.#backOffMs
    this.#become(false)
  }

  /** It connected, or it answered on a connection that stood already. */
  alive(): void {
    this.#become(true)
  }

  #become(healthy: boolean): void {
    if (this.#healthy === healthy) return
    this.#healthy = healthy
    this.#onChange(healthy)
  }
}
