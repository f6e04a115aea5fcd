import { ownText } from '../../edge/syntax/characters.ts'
import { PROOF_ALGORITHMS } from '../possession/dpop-proof.ts'

export type Scheme = 'bearer' | 'dpop'

export type AccessTokenReading =
  | { readonly scheme: Scheme; readonly token: string }
  | 'missing'
  | 'malformed'
  | 'too long'
  | 'other'

// RFC 9110 section 11.4.
const SCHEME = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?: +|$)/
// RFC 6750 section 2.1.
const B64TOKEN = /^[A-Za-z0-9._~+/-]+=*$/

/** Reads `Authorization` (RFC 6750 section 2.1, RFC 9449 section 7.1). Never throws. */
export function readAccessToken(value: string | undefined, maxChars: number): AccessTokenReading {
  if (value === undefined) return 'missing'
  const [upToToken, name] = SCHEME.exec(value) ?? []
  if (upToToken === undefined) return 'malformed'
  const scheme = schemeNamed(name)
  if (scheme === undefined) return 'other'
  const token = value.slice(upToToken.length)
  if (token.length > maxChars) return 'too long'
  if (!B64TOKEN.test(token)) return 'malformed'
  return { scheme, token: ownText(token) }
}

export function schemeOf(value: string | undefined): Scheme | undefined {
  return value === undefined ? undefined : schemeNamed(SCHEME.exec(value)?.[1])
}

function schemeNamed(name: string | undefined): Scheme | undefined {
  const lower = name?.toLowerCase()
  return lower === 'bearer' || lower === 'dpop' ? lower : undefined
}

/** RFC 6750 section 3.1, RFC 9449 section 7.1, RFC 9470 section 3, draft-ietf-oauth-rar-metadata-remediation. */
interface ChallengeError {
  readonly error:
    | 'invalid_request'
    | 'invalid_token'
    | 'insufficient_scope'
    | 'insufficient_authorization'
    | 'insufficient_user_authentication'
    | 'invalid_dpop_proof'
    | 'use_dpop_nonce'
  /** For the client's developer. Characters that the grammar forbids are left out. */
  readonly description?: string
  readonly scope?: string
  /** Space-separated. */
  readonly acrValues?: string | undefined
  readonly maxAgeSeconds?: number | undefined
  /** Only the challenge of this scheme names the error; undefined: both do. */
  readonly scheme: Scheme | undefined
}

const ALGS = `algs="${PROOF_ALGORITHMS.join(' ')}"`
const NOT_IN_ATTRIBUTE = /[^\x20\x21\x23-\x5b\x5d-\x7e]/g

/** `WWW-Authenticate` twice (RFC 9449 section 7.2), names and values in turn. @param refused undefined: no token */
export function challenges(refused?: ChallengeError): readonly string[] {
  const attributes = refused === undefined ? [] : attributesOf(refused)
  const bearer = refused?.scheme === 'dpop' ? [] : attributes
  const dpop = refused?.scheme === 'bearer' ? [] : attributes
  return [
    'WWW-Authenticate',
    ['Bearer realm="api"', ...bearer].join(', '),
    'WWW-Authenticate',
    `DPoP ${[...dpop, ALGS].join(', ')}`,
  ]
}

function attributesOf({ error, description, scope, acrValues, maxAgeSeconds }: ChallengeError): string[] {
  const attributes = {
    error,
    error_description: description,
    scope,
    acr_values: acrValues,
    max_age: maxAgeSeconds,
  }
  return Object.entries(attributes).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}="${String(value).replace(NOT_IN_ATTRIBUTE, '')}"`],
  )
}

const PLAIN = /[?&;]access_token(?:[=&;]|$)/i
const PARAMETER_NAMES = /[?&;]([^=&;]*)/g

/** Finds an access token in a query (RFC 6750 section 2.3), however its name is encoded. @param query with its `?` */
export function hasTokenParameter(query: string): boolean {
  if (PLAIN.test(query)) return true
  if (!query.includes('%')) return false
  for (const [, name = ''] of query.matchAll(PARAMETER_NAMES)) {
    if (name.includes('%') && withoutOctets(name) === 'access_token') return true
  }
  return false
}

function withoutOctets(name: string): string {
  return name
    .replace(/%([0-7][0-9a-f])/gi, (_octet, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .toLowerCase()
}
