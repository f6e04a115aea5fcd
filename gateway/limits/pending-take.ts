import type { LimitPolicy } from './table/limit-table.ts'
import type { Take } from './windows/window.ts'

/** A take that the shared store has not answered yet. */
export class PendingTake {
  readonly policy: LimitPolicy
  #outcome: Take | Error | undefined
  #run: (() => void) | undefined

  constructor(policy: LimitPolicy) {
    this.policy = policy
  }

  /** Undefined until it is known. @throws when nobody could decide */
  get take(): Take | undefined {
    if (this.#outcome instanceof Error) throw this.#outcome
    return this.#outcome
  }

  /** Calls `run` once, when `take` is known. `run` must not throw. */
  whenKnown(run: () => void): void {
    if (this.#outcome === undefined) this.#run = run
    else run()
  }

  /** To be called once. */
  settle(outcome: Take | Error): void {
    this.#outcome = outcome
    this.#run?.()
  }
}
