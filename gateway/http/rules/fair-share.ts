/** Part of the room that is given to whoever comes first. */
const UNSHARED = 3 / 4

/**
 * Whether one caller has more than its share of a room that all callers have in common. As long as a quarter of the room is
 * free nobody has; after that whoever has more than what is still free for all others. So one caller alone leaves
 * a quarter, two leave an eighth, and someone who has nothing yet finds room for as long as there is any.
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
