/**
 * An authenticated caller. Immutable and shared by all exchanges with the same credential, so it holds nothing about a
 * single request.
 */
export interface Principal {
  /** The kind of credential, as in `auth` of a route; also the value of `X-Auth-Method`. */
  readonly method: string
  /** `sub` of the token: the user's id. Undefined for a machine client without a user. */
  readonly subject: string | undefined
  /** `client_id` of the token. Undefined when the credential names no client. */
  readonly client: string | undefined
  /** `sid` of the token: the session that a logout revokes. */
  readonly session: string | undefined
  /** What the audit trail calls the session. Undefined without a session, or where sessions are not named. */
  readonly sessionName: string | undefined
  /** When the credential expires, epoch milliseconds. Undefined when it does not say. */
  readonly expiresAtMs: number | undefined
  /** What the caller may do (RFC 6749 section 3.3). */
  readonly scopes: ReadonlySet<string>
  /** The same, as the space-separated string that goes upstream. */
  readonly scope: string
  /** `acr` of the token: how the user was authenticated. Undefined when it does not say. */
  readonly acr?: string
  /** `auth_time` of the token and its issuer's clock tolerance, epoch milliseconds. Undefined when it does not say, or says the future. */
  readonly authenticatedAtMs?: number
  /** Unique across users and machines. */
  readonly key: string
  /** The key that limits count by: `p:` and the key, so never that of an address. Made once, because each request looks it up. */
  readonly limitKey: string
}

export function keysOf(key: string): Pick<Principal, 'key' | 'limitKey'> {
  return { key, limitKey: `p:${key}` }
}

/**
 * The first scope that the caller does not hold (RFC 6750 section 3.1); undefined when it holds one of the sets whole, or none is
 * needed.
 */
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
