import type { Principal } from '../principal.ts'

/**
 * The first scope that the caller does not hold (RFC 6750 section 3.1); undefined when it holds all that is needed.
 *
 * @param sets of which one must be held whole; none: nothing is needed
 */
export function missingScope(
  principal: Principal | undefined,
  sets: readonly (readonly string[])[] = [],
): string | undefined {
  let missing: string | undefined
  for (const set of sets) {
    const first = firstMissing(principal, set)
    if (first === undefined) return undefined
    missing ??= first
  }
  return missing
}

function firstMissing(principal: Principal | undefined, set: readonly string[]): string | undefined {
  for (const scope of set) if (principal?.scopes.has(scope) !== true) return scope
  return undefined
}
