import { NO_PROBE } from './circuit-breaker.ts'
import type { Origin } from './origin.ts'

/** Counts each attempt once, for health and circuit breaker. A base class, so that an exchange stays one object. */
export abstract class CountedAttempts<Pool> {
  protected chosenOrigin: Origin<Pool>
  #probe = NO_PROBE
  /** Final status, 0 if there is none or it was counted. */
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

  protected attemptEnded(status: number): void {
    this.#status = status
    this.chosenOrigin.health.responded(status)
    this.chosenOrigin.breaker?.ended(status, this.#probe)
  }

  /** Counts an attempt without a connection, which the pool reports to `Health`. */
  protected attemptRefused(): void {
    this.chosenOrigin.health.attempts.failed += 1
    this.chosenOrigin.breaker?.failed(this.#takeProbe())
  }

  protected attemptFailed(): void {
    const status = this.#takeStatus()
    this.chosenOrigin.health.brokeOff(status)
    this.chosenOrigin.breaker?.brokeOff(status, this.#takeProbe())
  }

  /** An attempt with a head and no later failure is a success, even when it was given up. */
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
