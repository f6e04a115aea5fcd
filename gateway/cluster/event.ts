/**
 * Something that one thread has done and every other must do as well, in the same order and as of the same time. What
 * the kinds mean is up to those who tell and hear them.
 */
export interface ClusterEvent {
  /** 1 to 255. */
  readonly kind: number
  /** Whom or what it concerns, a whole number of 32 bits: its meaning depends on the kind. */
  readonly id: number
  /** Epoch milliseconds with fractions. */
  readonly atMs: number
  readonly text: string
}

/** The order as those see it who take part in it with what they count or remember. */
export interface Sharing {
  /**
   * Begins what must be one step in the order: waits until no other thread is in one, and does what the others have done
   * meanwhile. Must be followed by `leave`, whatever happens.
   */
  enter(): void
  leave(): void
  /**
   * Epoch milliseconds of the step under way: never less than those of any step before, on whatever thread. Outside of a
   * step, what the clock says.
   */
  readonly nowMs: number
  /** Tells the others what was done in the step under way. */
  publish(event: ClusterEvent): void
  /** Does what the others have done; next to nothing when that is nothing. Not within a step. */
  catchUp(): void
}
