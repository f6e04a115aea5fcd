import type { Principal } from '../../principal.ts'
import type { Binding } from '../possession/binding.ts'

export interface VerifiedToken {
  readonly principal: Principal
  readonly binding: Binding | undefined
  readonly issuer: string
}

export type OrFault<Value, Fault = TokenFault> =
  | (Value & { readonly fault?: never })
  | ({ readonly fault: Fault } & { readonly [Member in keyof Value]?: never })

/** A verdict for all uses of a token. `provePossession` checks the `binding` at each use. */
export type Verification = OrFault<VerifiedToken>

/** `…_unavailable` is 503; all others are `invalid_token` (RFC 6750 section 3.1). */
export type TokenFaultReason =
  | 'malformed'
  | 'expired'
  | 'invalid'
  | 'inactive'
  | 'revoked'
  | 'keys_unavailable'
  | 'introspection_unavailable'

export interface TokenFault {
  readonly reason: TokenFaultReason
  /** For `error_description`: only characters that RFC 6750 section 3 allows there. */
  readonly description: string
  /** For the log. Text from the token is shortened and quoted; never the token itself. */
  readonly cause: string
  readonly client?: string | undefined
}

// One description for each reason: to name the failed check would help a forger.
const descriptions: Readonly<Record<TokenFaultReason, string>> = {
  malformed: 'The access token is malformed',
  expired: 'The access token expired',
  invalid: 'The access token is invalid',
  inactive: 'The access token is invalid',
  revoked: 'The access token was revoked',
  keys_unavailable: 'Access tokens cannot be verified at the moment',
  introspection_unavailable: 'Access tokens cannot be verified at the moment',
}

export function tokenFault(
  reason: TokenFaultReason,
  cause: string,
  description = descriptions[reason],
): TokenFault {
  return { reason, description, cause }
}

export function invalid(cause: string): { readonly fault: TokenFault } {
  return { fault: tokenFault('invalid', cause) }
}
