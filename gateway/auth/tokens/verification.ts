import type { Principal } from '../../principal.ts'
import type { Binding } from '../possession/binding.ts'

export interface VerifiedToken {
  readonly principal: Principal
  readonly binding: Binding | undefined
  /** The name of its issuer. */
  readonly issuer: string
  readonly fault?: never
}

/**
 * The principal of a token, or why it is refused. With a `binding`, the caller must also prove possession at every use
 * (`provePossession`). Shared by all uses of the token; immutable.
 */
export type Verification =
  | VerifiedToken
  | {
      readonly fault: TokenFault
      readonly principal?: never
      readonly binding?: never
      readonly issuer?: never
    }

/** `keys_unavailable` and `introspection_unavailable` are faults of the gateway or the issuer (503); all others are `invalid_token` (RFC 6750 section 3.1). */
export type TokenFaultReason =
  | 'malformed'
  | 'expired'
  | 'invalid'
  | 'inactive'
  | 'revoked'
  | 'keys_unavailable'
  | 'introspection_unavailable'

/** Why an access token was not accepted. Immutable. */
export interface TokenFault {
  readonly reason: TokenFaultReason
  /** Public sentence for `error_description`; only characters that RFC 6750 section 3 allows there. */
  readonly description: string
  /** Private, for the log. Text from the token is shortened and quoted; never the token itself. */
  readonly cause: string
}

// One sentence per reason: the failed check would help a forger.
const descriptions: Readonly<Record<TokenFaultReason, string>> = {
  malformed: 'The access token is malformed',
  expired: 'The access token expired',
  invalid: 'The access token is invalid',
  inactive: 'The access token is invalid',
  revoked: 'The access token was revoked',
  keys_unavailable: 'Access tokens cannot be verified at the moment',
  introspection_unavailable: 'Access tokens cannot be verified at the moment',
}

/** @param description default: the sentence of the reason */
export function tokenFault(
  reason: TokenFaultReason,
  cause: string,
  description = descriptions[reason],
): TokenFault {
  return { reason, description, cause }
}
