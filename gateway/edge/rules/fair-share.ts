/** The part of the room that is first come, first served. */
const UNSHARED = 3 / 4

/**
 * Whether one caller has more than its share of a common room. While more than a quarter is free, nobody has; after that,
 * whoever has more than what is still free. So one caller alone leaves a quarter, two leave an eighth, and a caller that
 * has nothing yet finds room as long as there is any.
 */
export function isOverShare({
  own,
  free,
  max,
}: {
  readonly own: number
  readonly free: number
  readonly max: number
}): boolean {
  return free <= max * (1 - UNSHARED) && own > free
}
