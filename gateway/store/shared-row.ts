import type { LimitRow } from '../limits/table/limit-row.ts'

/** A limit that all gateways of the store count together. Immutable. */
export interface SharedRow {
  /** The same at all gateways and after each edit that keeps the counts; holds no NUL. */
  readonly identity: string
  readonly limit: number
  readonly windowMs: number
}

/**
 * What a row of the limit table counts in. Its counts are those of its path and methods, so an edit of limit, window or name
 * keeps them. Unlike the limiter in memory, a store cannot know that a row with another path and the same name is the
 * old one: gateways that started in between must count in the same place.
 */
export function sharedRowOf({ path, methods, limit, windowMs }: LimitRow): SharedRow {
  const sorted = methods === undefined ? null : [...methods].sort()
  return { identity: `limit ${JSON.stringify([path, sorted])}`, limit, windowMs }
}
