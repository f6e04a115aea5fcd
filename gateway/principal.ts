/** A proved caller. All exchanges with one credential share it. Immutable. */
export interface Principal {
  /** As in `auth` of a route, and `X-Auth-Method`. */
  readonly method: string
  /** The user. Undefined for a machine client. */
  readonly subject: string | undefined
  readonly client: string | undefined
  readonly session: string | undefined
  /** Name of the session in the audit trail. */
  readonly sessionName: string | undefined
  /** Undefined when the credential does not say. */
  readonly expiresAtMs: number | undefined
  /** RFC 6749 section 3.3. */
  readonly scopes: ReadonlySet<string>
  /** Space-separated, as it goes upstream. */
  readonly scope: string
  readonly acr?: string | undefined
  /** `auth_time` plus the issuer's clock tolerance. Undefined: `auth_time` is missing, malformed or in the future. */
  readonly authenticatedAtMs?: number | undefined
  /** RFC 9396: a JSON text without repeated members, with numbers as the issuer wrote them. */
  readonly authorizationDetails?: string | undefined
  /** Unique across users and machines. */
  readonly key: string
  /** `p:` and `key`, so that it equals no address. */
  readonly limitKey: string
}

export function keysOf(key: string): Pick<Principal, 'key' | 'limitKey'> {
  return { key, limitKey: `p:${key}` }
}

/** The first missing scope (RFC 6750 section 3.1); undefined without sets, or when the caller holds a whole set. */
export function missingScope(
  principal: Principal | undefined,
  sets: readonly (readonly string[])[] = [],
): string | undefined {
  let missing: string | undefined
  for (const set of sets) {
    const first = set.find((scope) => principal?.scopes.has(scope) !== true)
    if (first === undefined) return undefined
    missing ??= first
  }
  return missing
}
