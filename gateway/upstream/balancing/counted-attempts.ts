import { NO_PROBE } from './circuit-breaker.ts'
import type { Origin } from './origin.ts'

/**
 * Counts each attempt of an exchange once, for health and circuit breaker. A base class, so that an exchange stays one
 * object.
 */
export abstract class CountedAttempts<Pool> {
  /** Origin of the present attempt, else of the last one. */
  protected chosenOrigin: Origin<Pool>
  #probe = NO_PROBE
  /** The present attempt's final status; 0: none, or its result has been counted. */
  #status = 0

  constructor(first: Origin<Pool>) {
    this.chosenOrigin = first
  }

  protected attemptBegan(): void {
    const { chosenOrigin } = this
    chosenOrigin.inFlight += 1
    if (chosenOrigin.breaker !== undefined) this.#probe = chosenOrigin.breaker.begin()
  }

  protected attemptResponded(status: number): void {
    this.#status = status
    this.chosenOrigin.health.responded(status)
    this.chosenOrigin.breaker?.responded(status, this.#probe)
  }

  /** @param status what the whole response means, whatever its head said */
  protected attemptEnded(status: number): void {
    this.#status = status
    this.chosenOrigin.health.responded(status)
    this.chosenOrigin.breaker?.ended(status, this.#probe)
  }

  /** Counts an attempt that found no connection. The pool reports that to `Health`. */
  protected attemptRefused(): void {
    this.chosenOrigin.health.attempts.failed += 1
    this.chosenOrigin.breaker?.failed(this.#takeProbe())
  }

  protected attemptFailed(): void {
    const status = this.#takeStatus()
    this.chosenOrigin.health.brokeOff(status)
    this.chosenOrigin.breaker?.brokeOff(status, this.#takeProbe())
  }

  /** Ends an attempt. With a head and no failure after it, the attempt is a success, even when it was given up. */
  protected attemptOver(): void {
    const { chosenOrigin } = this
    chosenOrigin.inFlight -= 1
    if (this.#status !== 0) {
      const status = this.#takeStatus()
      chosenOrigin.health.succeeded(status)
      chosenOrigin.breaker?.succeeded(status, this.#takeProbe())
    } else if (this.#probe !== NO_PROBE) chosenOrigin.breaker?.abandoned(this.#takeProbe())
  }

  #takeStatus(): number {
    const status = this.#status
    this.#status = 0
    return status
  }

  #takeProbe(): number {
    const probe = this.#probe
    this.#probe = NO_PROBE
    return probe
  }
}
