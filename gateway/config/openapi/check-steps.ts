/** A value would take too long to be compared with its schema. */
export class TooComplex extends Error {}

/** Steps that the check of one value may take, each some 5 ns: 100 ms. */
const MAX_STEPS = 20_000_000

let steps = 0

/** Begins to count the steps of one check. What follows must be synchronous. */
export function beginSteps(): void {
  steps = 0
}

/** @throws TooComplex */
export function takeSteps(count: number): void {
  steps += count
  if (steps > MAX_STEPS) throw new TooComplex('it takes too many steps')
}
