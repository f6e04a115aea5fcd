/**
 * A change that one thread has made and every other thread must apply too, in the same order and with the same time. The
 * meaning of the kinds is up to publishers and handlers.
 */
export interface ClusterEvent {
  /** 1 to 255. */
  readonly kind: number
  /** 32-bit integer; its meaning depends on the kind. */
  readonly id: number
  /** Epoch milliseconds with fractions. */
  readonly atMs: number
  readonly text: string
}

/** The event log, as used by code that shares its state. */
export interface Sharing {
  /**
   * Begins a step: waits until no other thread is in one, and applies the events of the others. Must be followed by
   * `leave`, also after an exception.
   */
  enter(): void
  leave(): void
  /**
   * Epoch milliseconds of the current step, never before those of an earlier step on any thread. Outside a step, the
   * time of the clock.
   */
  readonly nowMs: number
  /** Publishes what was done in the current step. */
  publish(event: ClusterEvent): void
  /** Applies the events of the other threads. Costs next to nothing when there are none. Not within a step. */
  catchUp(): void
}
