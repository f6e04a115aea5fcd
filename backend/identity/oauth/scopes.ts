import { PROFILE_WRITE } from '../../caller.ts'
import { SCOPES_OF_ROLE } from '../session-tokens.ts'

/** Scopes of OpenID Connect Core, sections 3.1.2.1 and 11. */
const PROTOCOL_SCOPES = ['openid', 'offline_access'] as const

const USER_SCOPES: readonly string[] = SCOPES_OF_ROLE.user.split(' ')

/** All scopes of the API. No role holds `profile:write`, but every user may grant it; a session does not need it. */
const API_SCOPES: readonly string[] = [...SCOPES_OF_ROLE.operator.split(' '), PROFILE_WRITE]

export const ALL_SCOPES: readonly string[] = [...PROTOCOL_SCOPES, ...API_SCOPES]

export const DEFAULT_CLIENT_SCOPE = [...PROTOCOL_SCOPES, ...USER_SCOPES].join(' ')

/** The API scopes among `requested` that a user of this role may grant. */
export function grantable(requested: Iterable<string>, role: keyof typeof SCOPES_OF_ROLE): string[] {
  const held = [...SCOPES_OF_ROLE[role].split(' '), PROFILE_WRITE]
  return [...requested].filter((scope) => held.includes(scope))
}

/** The API scopes that a client may be given, whoever signs in. */
export function apiScopesOfClient(clientScope: string | undefined): string[] {
  const allowed = (clientScope ?? DEFAULT_CLIENT_SCOPE).split(' ')
  return API_SCOPES.filter((scope) => allowed.includes(scope))
}

/**
 * Names all scopes that a token response grants (RFC 6749 section 5.1); oidc-provider names only the access token's.
 *
 * @param allowed the scopes that the user allowed
 */
export function grantedScope(response: TokenResponse, allowed = ''): string {
  const mayRefresh = response.refresh_token !== undefined && allowed.split(' ').includes('offline_access')
  const scopes = [
    ...(response.id_token === undefined ? [] : ['openid']),
    ...(mayRefresh ? ['offline_access'] : []),
    ...(response.scope ?? '').split(' '),
  ]
  return [...new Set(scopes)].filter(Boolean).join(' ')
}

/** Members of a token response (RFC 6749 section 5.1, OpenID Connect Core 3.1.3.3). */
export interface TokenResponse {
  readonly scope?: string
  readonly id_token?: string
  readonly refresh_token?: string
}

/** What each scope allows, in the words of the consent page. */
export const SCOPE_MEANINGS: Readonly<Record<string, string>> = {
  openid: 'know that it is you, by an identifier',
  'accounts:read': 'see the balance of your account',
  'transfers:write': 'transfer money from your account',
  'identity:verify': 'have travel documents checked in your name',
  [PROFILE_WRITE]:
    'see and change your name and e-mail address, and, if you also give it your password, change the password or delete your account',
  'users:admin': 'read, change and delete the records of all users',
  offline_access: 'keep this access also while you are not using it',
}
