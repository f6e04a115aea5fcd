import { MAX_TOKEN_CHARS } from './token.ts'

/** What the `Authorization` field holds. `other`: credentials of another scheme. */
export type BearerReading = { readonly token: string } | 'missing' | 'malformed' | 'other'

// RFC 9110 section 11.4: a scheme is a token, alone or followed by spaces.
const SCHEME = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?: +|$)/
// RFC 6750 section 2.1.
const B64TOKEN = /^[A-Za-z0-9._~+/-]+=*$/

/**
 * Reads the value of an `Authorization` field (RFC 6750 section 2.1): the scheme in any case, one or more spaces, one
 * b64token of at most 8 KiB. Never throws.
 */
export function readBearer(value: string | undefined): BearerReading {
  if (value === undefined) return 'missing'
  const scheme = SCHEME.exec(value)
  if (scheme === null) return 'malformed'
  const [upToToken, name = ''] = scheme
  if (name.toLowerCase() !== 'bearer') return 'other'
  const token = value.slice(upToToken.length)
  return token.length <= MAX_TOKEN_CHARS && B64TOKEN.test(token) ? { token } : 'malformed'
}

const REALM = 'Bearer realm="api"'
const NOT_IN_ATTRIBUTE = /[^\x20\x21\x23-\x5b\x5d-\x7e]/g

/**
 * The `WWW-Authenticate` value of a refusal (RFC 6750 section 3): `missing` for a request without credentials, which
 * is told of no error; `invalid_request` (400) and `invalid_token` (401) with their `error_description`;
 * `insufficient_scope` (403) with the space-separated scopes that are needed. Characters that the grammar does not
 * allow are left out.
 */
export function challenge(kind: 'missing'): string
export function challenge(kind: 'invalid_request' | 'invalid_token', description: string): string
export function challenge(kind: 'insufficient_scope', scope: string): string
export function challenge(kind: string, detail = ''): string {
  if (kind === 'missing') return REALM
  const attribute = kind === 'insufficient_scope' ? 'scope' : 'error_description'
  return `${REALM}, error="${kind}", ${attribute}="${detail.replace(NOT_IN_ATTRIBUTE, '')}"`
}
