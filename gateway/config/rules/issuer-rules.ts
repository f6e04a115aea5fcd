import { introspectionFault, introspectionSettings } from '../issuers/introspection-settings.ts'
import { dialectFault, tokenDialect } from '../issuers/token-dialects.ts'
import type { JsonFile } from '../json/json-file.ts'
import type { WrittenGateway } from '../keys/gateway-keys.ts'
import type { FurtherIssuer, IssuerSettings, Settings, TokenAlgorithm } from '../settings.ts'
import { isPrivateUrl, issuerFault, urlFault } from './value-rules.ts'
import { windowAtMost, windowToMs } from './window-rule.ts'

type WrittenIssuer = WrittenGateway['issuers'][number]
type WrittenTerms = Pick<
  WrittenIssuer,
  'algorithms' | 'profile' | 'tokens' | 'clockTolerance' | 'introspection'
>

/** FAPI 2.0 section 5.4.1. */
const FAPI_ALGORITHMS: readonly TokenAlgorithm[] = ['ES256', 'PS256', 'EdDSA']
const toleranceFault = windowAtMost('60s')
const ALGORITHMS: readonly TokenAlgorithm[] = [...FAPI_ALGORITHMS, 'RS256']
/** The audience that `init` writes when nobody names one. No token of any provider has it. */
export const UNSET_AUDIENCE = 'CHANGE-ME: the audience of your API'

export function issuerSettings(written: WrittenIssuer): FurtherIssuer {
  const { issuer, jwksUri, audience, scopes } = written
  return { issuer, jwksUri, audience, scopes, ...issuerTerms(written) }
}

export function issuerWarnings({
  issuer: own,
  issuerIsDefault,
  audience,
  issuers,
  routes,
}: Pick<Settings, 'issuer' | 'issuerIsDefault' | 'issuers' | 'routes'> & {
  readonly audience?: Settings['audience'] | undefined
}): readonly string[] {
  const accepting = routes.filter(({ auth }) => auth.has('bearer'))
  if (accepting.length === 0) return []
  const unnamed = `no issuer is set: routes accept bearer tokens of ${own}, which is the demonstration; set "issuer", "audience" and "jwksUri" (GATEWAY_ISSUER, GATEWAY_AUDIENCE, GATEWAY_JWKS_URI)`
  const powerless = accepting.some(({ scopes }) => scopes.length > 0)
    ? issuers.filter(({ scopes }) => scopes.length === 0)
    : []
  return [
    ...(issuerIsDefault ? [unnamed] : []),
    ...(audience === UNSET_AUDIENCE
      ? [`"audience" is "${UNSET_AUDIENCE}": every token of ${own} is refused`]
      : []),
    ...powerless.map(
      ({ issuer }) =>
        `the issuer ${issuer} has no "scopes": its tokens permit nothing on routes that ask for a scope`,
    ),
  ]
}

export function issuerTerms({
  algorithms,
  profile,
  tokens,
  clockTolerance,
  introspection,
}: WrittenTerms): Omit<IssuerSettings, 'issuer' | 'jwksUri' | 'audience'> {
  return {
    algorithms: algorithms ?? (profile === 'fapi' ? FAPI_ALGORITHMS : ALGORITHMS),
    profile,
    tokens: tokenDialect(tokens),
    clockToleranceMs: windowToMs(clockTolerance),
    ...(introspection && { introspection: introspectionSettings(introspection) }),
  }
}

export function checkIssuers(json: JsonFile<unknown>, issuers: readonly WrittenIssuer[]): void {
  if (!Array.isArray(issuers)) return
  for (const [index, written] of issuers.entries()) {
    const at = `$.issuers[${index}]`
    if (written === null) continue
    json.check(`${at}.issuer`, written.issuer, (issuer) => issuerFault(issuer) ?? nameFault(issuer))
    json.check(`${at}.jwksUri`, written, jwksUriFault)
    checkTerms(json, at, written)
    if (!json.sound(at)) continue
    for (const [before, other] of issuers.slice(0, index).entries()) {
      if (!json.sound(`$.issuers[${before}]`)) continue
      const reason = sameIssuerFault(written, other, `$.issuers[${before}]`)
      if (reason !== undefined) json.refuse({ path: at, reason })
    }
  }
}

/** @param at path of the other issuer */
export function sameIssuerFault(
  one: Pick<IssuerSettings, 'issuer' | 'jwksUri'>,
  other: Pick<IssuerSettings, 'issuer' | 'jwksUri'>,
  at: string,
): string | undefined {
  if (one.issuer === other.issuer) return `the issuer ${one.issuer} is also the one of ${at}`
  if (one.jwksUri !== other.jwksUri) return undefined
  return `the jwksUri ${one.jwksUri} is also that of ${at}: the keys of one issuer would verify tokens of the other`
}

/** FAPI 2.0 section 5.4.2. */
export function fapiUriFault(uri: string): string | undefined {
  return isPrivateUrl(uri)
    ? undefined
    : `must be https under the profile "fapi", or on this machine, but is "${uri}"`
}

function jwksUriFault({ jwksUri, profile }: WrittenIssuer): string | undefined {
  return urlFault(jwksUri) ?? (profile === 'fapi' ? fapiUriFault(jwksUri) : undefined)
}

/** The name is part of ids in headers, and of the comma-separated list of sessions to revoke. */
function nameFault(issuer: string): string | undefined {
  if (issuer.includes(',')) return 'must not hold ",": its sessions could not be revoked'
  return /^[\x21-\x7e]*$/.test(issuer)
    ? undefined
    : 'must be ASCII: other characters are written percent-encoded'
}

export function checkTerms(json: JsonFile<unknown>, at: string, written: WrittenTerms): void {
  json.check(`${at}.tokens`, written.tokens, (tokens) => dialectFault(tokens, written.profile))
  json.check(`${at}.introspection`, written.introspection, introspectionFault)
  json.check(`${at}.clockTolerance`, written.clockTolerance, toleranceFault)
  json.check(`${at}.algorithms`, written, ({ algorithms, profile }) =>
    profile === 'fapi' && algorithms?.includes('RS256')
      ? 'must not hold "RS256" under the profile "fapi"'
      : undefined,
  )
}
