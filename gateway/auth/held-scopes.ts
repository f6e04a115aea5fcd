import type { Principal } from '../principal.ts'

/** The first of the scopes that the caller does not hold (RFC 6750 section 3.1); undefined when it holds them all. */
export function missingScope(
  principal: Principal | undefined,
  needed: readonly string[] = [],
): string | undefined {
  for (const scope of needed) if (principal?.scopes.has(scope) !== true) return scope
  return undefined
}
