import type { DialectPreset, WrittenTokens } from '../keys/token-keys.ts'
import { windowToMs } from '../rules/window-rule.ts'

export interface ClaimTerm {
  readonly claim: string
  readonly values: readonly ClaimValue[]
}

type ClaimValue = string | number | boolean

/** How an issuer writes its access tokens. */
export interface TokenDialect {
  /** Accepted `typ`, in small letters and without `application/`; the empty text stands for none. */
  readonly types: readonly string[]
  /** The scopes of all these claims count. */
  readonly scopeClaims: readonly string[]
  /** What counts is the first of these claims in the token. */
  readonly clientClaims: readonly string[]
  readonly subjectClaims: readonly string[]
  /** Empty: no id is asked for. */
  readonly idClaims: readonly string[]
  readonly audienceClaim: string
  /** Each must be met. */
  readonly require: readonly ClaimTerm[]
  /** A token that meets one of these has no user. */
  readonly machine: readonly ClaimTerm[]
  /** What a machine's subject has after the id of its app. */
  readonly machineSuffix: string
  /** A token needs one of these claims, which ID tokens lack, unless `typ` is `at+jwt`. Empty: not checked. */
  readonly accessClaims: readonly string[]
  /** The longest `exp` − `iat`. */
  readonly maxLifetimeMs: number
  readonly maxChars: number
}

type WrittenTerms = NonNullable<Exclude<WrittenTokens, string>['require']>

const DAY_MS = 86_400_000
const MAX_LIFETIME_MS = 30 * DAY_MS

/** RFC 9068: the type marks an access token. */
export const RFC9068: TokenDialect = {
  types: ['at+jwt'],
  scopeClaims: ['scope'],
  clientClaims: ['client_id'],
  subjectClaims: ['sub'],
  idClaims: ['jti'],
  audienceClaim: 'aud',
  require: [],
  machine: [],
  machineSuffix: '',
  accessClaims: [],
  maxLifetimeMs: DAY_MS,
  maxChars: 8192,
}

const PRESETS: Readonly<Record<DialectPreset, TokenDialect>> = {
  rfc9068: RFC9068,
  // https://learn.microsoft.com/en-us/entra/identity-platform/access-token-claims-reference (v1: appid, v2: azp)
  // https://learn.microsoft.com/en-us/entra/identity-platform/id-token-claims-reference (it has roles, but no client)
  entra: {
    ...RFC9068,
    types: ['jwt'],
    scopeClaims: ['scp', 'roles'],
    clientClaims: ['azp', 'appid'],
    subjectClaims: ['oid', 'sub'],
    idClaims: ['uti'],
    machine: [{ claim: 'idtyp', values: ['app'] }],
    accessClaims: ['azp', 'appid'],
  },
  // https://developer.okta.com/docs/api/openapi/okta-oauth/guides/overview/#access-token
  okta: {
    ...RFC9068,
    types: ['', 'jwt'],
    scopeClaims: ['scp'],
    clientClaims: ['cid'],
    accessClaims: ['cid'],
  },
  // https://auth0.com/docs/secure/tokens/access-tokens/access-token-profiles
  auth0: {
    ...RFC9068,
    types: ['jwt', 'at+jwt'],
    scopeClaims: ['scope', 'permissions'],
    clientClaims: ['azp', 'client_id'],
    idClaims: [],
    machine: [{ claim: 'gty', values: ['client-credentials'] }],
    // Its profile of RFC 9068 has no gty.
    machineSuffix: '@clients',
    accessClaims: ['scope', 'permissions', 'gty'],
  },
  // https://docs.aws.amazon.com/cognito/latest/developerguide/amazon-cognito-user-pools-using-the-access-token.html
  cognito: {
    ...RFC9068,
    types: ['', 'jwt'],
    audienceClaim: 'client_id',
    require: [{ claim: 'token_use', values: ['access'] }],
  },
  // https://www.keycloak.org/docs/latest/server_admin/#_oidc_token_types; a token that is bound by DPoP has the type DPoP:
  // https://github.com/keycloak/keycloak/blob/main/services/src/main/java/org/keycloak/services/util/DPoPUtil.java
  keycloak: {
    ...RFC9068,
    types: ['jwt', 'at+jwt'],
    clientClaims: ['azp', 'client_id'],
    require: [{ claim: 'typ', values: ['Bearer', 'DPoP'] }],
  },
  // https://developer.pingidentity.com/pingone-api/foundations/authentication-concepts/access-tokens-and-id-tokens/token-claims.html
  // A token of client_credentials has no sub.
  ping: { ...RFC9068, types: ['at+jwt', ''], subjectClaims: ['sub', 'client_id'] },
}

export function tokenDialect(written: WrittenTokens = 'rfc9068'): TokenDialect {
  if (typeof written === 'string') return PRESETS[written]
  const { preset = 'rfc9068', types, require, machine, maxLifetime, ...asWritten } = written
  const base = PRESETS[preset]
  return {
    ...base,
    ...asWritten,
    ...(types && { types: types.map(typeName) }),
    // The preset's claims tell an access token from an ID token, so they stay unless `require` names them.
    ...(require && {
      require: [...base.require.filter(({ claim }) => !Object.hasOwn(require, claim)), ...terms(require)],
    }),
    ...(machine && { machine: terms(machine) }),
    ...(maxLifetime !== undefined && { maxLifetimeMs: windowToMs(maxLifetime) }),
  } as TokenDialect
}

/** A `typ` as it is compared: without `application/`, which is optional (RFC 7515 section 4.1.9), in lower case. */
export function typeName(typ: string): string {
  return typ.toLowerCase().replace(/^application\//, '')
}

function terms(written: WrittenTerms): readonly ClaimTerm[] {
  return Object.entries(written).map(([claim, values]) => ({ claim, values: [values].flat() }))
}

/** Keys that may be set under the profile FAPI, besides `maxLifetime`. */
const FREE_UNDER_FAPI: ReadonlySet<string> = new Set(['require', 'maxChars'])

export function dialectFault(written: WrittenTokens, profile: 'fapi' | undefined): string | undefined {
  const {
    preset = 'rfc9068',
    maxLifetime,
    ...rest
  } = typeof written === 'string' ? { preset: written } : written
  if (profile === 'fapi') {
    if (preset !== 'rfc9068') return `must not be "${preset}" under the profile "fapi": it takes rfc9068 only`
    const other = Object.keys(rest).find((key) => !FREE_UNDER_FAPI.has(key))
    if (other !== undefined)
      return `must not have "${other}" under the profile "fapi": it takes rfc9068 as it is`
  }
  if (maxLifetime === undefined || windowToMs(maxLifetime) <= MAX_LIFETIME_MS) return undefined
  return `must have a maxLifetime of at most "30d", but it is "${maxLifetime}"`
}
