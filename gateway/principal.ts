/** How a caller proved who it is; the label of metrics and of `X-Auth-Method`. */
export type AuthMethod = 'bearer' | 'mtls' | 'hmac'

/**
 * Who a credential proved: the caller of one exchange. Immutable and shared by every exchange that presents the
 * same credential, so it holds nothing of a single request.
 */
export interface Principal {
  readonly method: AuthMethod
  /** `sub` of the token: the user's id. Undefined for a machine that acts for itself. */
  readonly subject: string | undefined
  /** `client_id` of the token: the software that calls. Undefined when the credential names none. */
  readonly client: string | undefined
  /** `sid` of the token: the session that a logout revokes. */
  readonly session: string | undefined
  /** When the credential is no longer good, epoch milliseconds. Undefined: it says nothing of that. */
  readonly expiresAtMs: number | undefined
  /** What the caller may do (RFC 6749 section 3.3). */
  readonly scopes: ReadonlySet<string>
  /** The same, as the space-separated string that goes upstream. */
  readonly scope: string
  /** What limits count by: unique over users and machines. */
  readonly key: string
}
