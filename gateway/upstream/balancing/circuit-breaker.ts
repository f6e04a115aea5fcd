import type { BreakerSettings } from '../../config/upstreams/upstream-group.ts'

const SLOTS = 10

export type BreakerState = 'closed' | 'half-open' | 'open'

/** Marks an exchange that began while the breaker was closed. */
export const NO_PROBE = 0

/**
 * Opens after too many failures. After `openMs` it is half open, and admits a round of `probes` exchanges. It closes
 * after `probes` successes and opens at the first failure. After `openMs` without a result, a new round begins.
 */
export class CircuitBreaker {
  readonly #settings: BreakerSettings
  readonly #clock: () => number
  readonly #onChange: (state: BreakerState) => void
  readonly #window: FailureWindow | undefined
  /** Only this class writes it. */
  state: BreakerState = 'closed'
  /** The last failure that opened the breaker. Only this class writes it. */
  cause = ''
  #failuresInRow = 0
  #openUntilMs = 0
  /** Each probe carries the number of its round. */
  #round = NO_PROBE
  #firstRound = NO_PROBE
  #begun = 0
  #roundEndsMs = 0
  #succeeded = 0
  /** Probes that got a good head, ended or not. */
  #promising = 0

  constructor(settings: BreakerSettings, clock: () => number, onChange: (state: BreakerState) => void) {
    this.#settings = settings
    this.#clock = clock
    this.#onChange = onChange
    this.#window = settings.failurePercent === undefined ? undefined : new FailureWindow(settings.windowMs)
  }

  admits(): boolean {
    if (this.state === 'closed') return true
    const nowMs = this.#clock()
    if (this.state === 'open') return nowMs >= this.#openUntilMs
    return this.#begun < this.#settings.probes || nowMs >= this.#roundEndsMs
  }

  get waitMs(): number {
    if (this.admits()) return 0
    return (this.state === 'open' ? this.#openUntilMs : this.#roundEndsMs) - this.#clock()
  }

  /** @returns the number to report the result with */
  begin(): number {
    if (this.state === 'half-open' && this.#isPromising) this.#become('closed')
    if (this.state === 'closed') return NO_PROBE
    if (this.state === 'open') {
      this.#firstRound = this.#round + 1
      this.#succeeded = 0
      this.#promising = 0
    }
    if (this.state === 'open' || this.#begun >= this.#settings.probes) {
      this.#round += 1
      this.#begun = 0
      this.#roundEndsMs = this.#clock() + this.#settings.openMs
    }
    this.#begun += 1
    this.#become('half-open')
    return this.#round
  }

  /** True when the round is over and enough probes have good heads: their bodies may go on for hours. */
  get #isPromising(): boolean {
    return this.#promising >= this.#settings.probes && this.#clock() >= this.#roundEndsMs
  }

  /** A failure counts at once, a success only by `succeeded`, because the body may break off. */
  responded(status: number, probe: number): void {
    if (this.#isFailure(status)) this.failed(probe, `status ${status}`)
    else if (this.#isProbe(probe)) this.#promising += 1
  }

  /** @param status what the whole response means, whatever its head said */
  ended(status: number, probe: number): void {
    if (this.#isFailure(status)) this.failed(probe, `status ${status}`)
  }

  /** @param status of the head */
  succeeded(status: number, probe: number): void {
    if (!this.#isFailure(status)) this.#good(probe)
  }

  /** @param status of the head, 0 without one. A failure status was counted already */
  brokeOff(status: number, probe: number): void {
    if (!this.#isFailure(status)) this.failed(probe, 'no whole response')
  }

  #isFailure(status: number): boolean {
    const { statuses } = this.#settings
    return statuses === undefined ? status >= 500 : statuses.includes(status)
  }

  failed(probe: number, cause = 'no connection'): void {
    if (this.#isProbe(probe)) this.#open(this.#clock(), cause)
    if (this.state !== 'closed') return
    const { failures, failurePercent, minRequests } = this.#settings
    const nowMs = this.#clock()
    this.#failuresInRow += 1
    this.#window?.add(nowMs, true)
    const tooMany = failures > 0 && this.#failuresInRow >= failures
    const tooOften =
      failurePercent !== undefined && (this.#window?.failurePercent(minRequests) ?? 0) >= failurePercent
    if (tooMany || tooOften) this.#open(nowMs, cause)
  }

  /** Gives back a probe without a result, such as a cancelled one. */
  abandoned(probe: number): void {
    if (this.#isProbe(probe) && probe === this.#round) this.#begun -= 1
  }

  #isProbe(probe: number): boolean {
    return this.state === 'half-open' && probe >= this.#firstRound
  }

  #good(probe: number): void {
    if (this.state === 'closed') {
      this.#failuresInRow = 0
      this.#window?.add(this.#clock(), false)
    } else if (this.#isProbe(probe)) {
      this.#succeeded += 1
      if (this.#succeeded >= this.#settings.probes) this.#become('closed')
    }
  }

  #open(nowMs: number, cause: string): void {
    this.cause = cause
    this.#failuresInRow = 0
    this.#window?.clear()
    this.#openUntilMs = nowMs + this.#settings.openMs
    this.#become('open')
  }

  #become(state: BreakerState): void {
    if (this.state === state) return
    this.state = state
    this.#onChange(state)
  }
}

/** Slides in steps of a tenth of its length. */
class FailureWindow {
  readonly #slotMs: number
  /** Oldest first. */
  #slots: { readonly at: number; results: number; failures: number }[] = []

  constructor(windowMs: number) {
    this.#slotMs = windowMs / SLOTS
  }

  add(nowMs: number, failed: boolean): void {
    const at = Math.floor(nowMs / this.#slotMs)
    let slot = this.#slots.at(-1)
    if (slot?.at !== at) {
      slot = { at, results: 0, failures: 0 }
      this.#slots = [...this.#slots.filter((one) => one.at > at - SLOTS), slot]
    }
    slot.results += 1
    if (failed) slot.failures += 1
  }

  failurePercent(minResults: number): number {
    let results = 0
    let failures = 0
    for (const slot of this.#slots) {
      results += slot.results
      failures += slot.failures
    }
    return results < minResults ? 0 : (failures * 100) / results
  }

  clear(): void {
    this.#slots = []
  }
}
