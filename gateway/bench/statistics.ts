export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** Throws without a value. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const low = sorted[Math.ceil(sorted.length / 2) - 1]
  const high = sorted[Math.floor(sorted.length / 2)]
  const min = sorted[0]
  const max = sorted.at(-1)
  if (low === undefined || high === undefined || min === undefined || max === undefined) {
    throw new Error('no value to take the median of')
  }
  return { median: (low + high) / 2, min, max }
}

/**
 * The ratio round by round, because a disturbance of the machine affects both. Rounds without a ratio are left out;
 * undefined when no round is left.
 */
export function ratioOf(
  one: ReadonlyMap<number, number>,
  other: ReadonlyMap<number, number>,
): Spread | undefined {
  const ratios: number[] = []
  for (const [round, value] of one) {
    const against = other.get(round)
    if (against !== undefined && against > 0) ratios.push(value / against)
  }
  return ratios.length === 0 ? undefined : spreadOf(ratios)
}
