import type { RouteAuth } from '../settings.ts'

export interface OperationSecurity {
  readonly auth: readonly RouteAuth[]
  /** A caller needs every scope of one of these sets. */
  readonly scopes: readonly (readonly string[])[]
}

interface Alternative {
  readonly kind: RouteAuth
  readonly scopes: ReadonlySet<string>
}

interface SecurityRules {
  readonly schemes: Readonly<Record<string, unknown>>
  readonly mapped: Readonly<Record<string, RouteAuth>>
}

/** Reads a list of requirements, of which one is enough. @returns a fault when no route can ask for exactly these */
export function readSecurity(security: unknown, rules: SecurityRules): OperationSecurity | string {
  if (!Array.isArray(security)) return 'must be a list of security requirements'
  if (security.length === 0) return { auth: ['none'], scopes: [] }
  const alternatives = security.map((requirement) => readRequirement(requirement, rules))
  const fault = alternatives.find((one) => typeof one === 'string')
  if (fault !== undefined) return fault
  const all = alternatives as Alternative[]
  const auth = [...new Set(all.map(({ kind }) => kind))]
  // Whoever is let through without proof needs no scopes either.
  if (auth.includes('none')) return { auth, scopes: [] }
  const [first = [], ...others] = auth.map((kind) => leastSets(all.filter((one) => one.kind === kind)))
  if (others.some((sets) => keyOf(sets) !== keyOf(first))) {
    return 'asks for scopes that differ by kind of credential, but a route has the same for all: write a row of "routes" with its path and method'
  }
  return { auth, scopes: first.map((set) => [...set]) }
}

/** The sets of scopes that contain no other set of the list. Empty where one alternative asks for no scope. */
function leastSets(alternatives: readonly Alternative[]): readonly ReadonlySet<string>[] {
  const sets = alternatives.map(({ scopes }) => scopes)
  if (sets.some(({ size }) => size === 0)) return []
  return sets.filter((set, index) =>
    sets.every(
      (other, otherIndex) =>
        [...other].some((scope) => !set.has(scope)) || (other.size === set.size && otherIndex >= index),
    ),
  )
}

function keyOf(sets: readonly ReadonlySet<string>[]): string {
  return sets
    .map((set) => [...set].sort().join(' '))
    .sort()
    .join(',')
}

/** Reads one requirement. A scheme that is left to the service asks for nothing here. */
function readRequirement(requirement: unknown, rules: SecurityRules): Alternative | string {
  if (typeof requirement !== 'object' || requirement === null || Array.isArray(requirement))
    return 'must be a list of security requirements'
  const unlisted = Object.entries(requirement).find(([, scopes]) => !Array.isArray(scopes ?? []))
  if (unlisted !== undefined) return `must list the scopes of ${unlisted[0]}, or [] for none`
  const asked = Object.entries(requirement).map(([name, scopes]) => ({
    name,
    auth: authOf(name, rules),
    scopes: (scopes ?? []).map(textOf),
  }))
  const unknown = asked.find(({ auth }) => auth === undefined)
  if (unknown !== undefined) {
    return `asks for the scheme ${JSON.stringify(unknown.name)}, which is neither bearer, OAuth, OpenID Connect nor mutual TLS: say in openapi.schemes what it is`
  }
  const checked = asked.filter(({ auth }) => auth !== 'none')
  const kinds = new Set(checked.map(({ auth }) => auth as RouteAuth))
  if (kinds.size > 1) {
    return `asks for ${checked.map(({ name }) => name).join(' and ')} together, but a route accepts any one of its kinds: write a row of "routes" with its path and method`
  }
  const [kind = 'none'] = kinds
  return { kind, scopes: new Set(checked.flatMap(({ scopes }) => scopes)) }
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** The gateway's own check of a scheme (OpenAPI 3.1 section 4.8.27); undefined: it has none. */
export function authOf(name: string, { schemes, mapped }: SecurityRules): RouteAuth | undefined {
  const said = Object.hasOwn(mapped, name) ? mapped[name] : undefined
  if (said !== undefined) return said
  const { type, scheme } = Object(Object.hasOwn(schemes, name) ? schemes[name] : undefined)
  if (type === 'oauth2' || type === 'openIdConnect') return 'bearer'
  if (type === 'http' && typeof scheme === 'string' && scheme.toLowerCase() === 'bearer') return 'bearer'
  return type === 'mutualTLS' ? 'mtls' : undefined
}
