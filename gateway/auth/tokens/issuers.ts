import type { IssuerSettings, Settings } from '../../config/settings.ts'
import type { Field } from '../../http/syntax/field.ts'
import { KeySet } from '../keys/jwks.ts'
import { fetchJwks } from '../keys/jwks-fetch.ts'
import type { Algorithm } from '../keys/verification-key.ts'
import type { ClaimRules } from './claims.ts'

/** An issuer whose tokens are accepted, with the keys that verify its tokens and no one else's. */
export interface TrustedIssuer extends ClaimRules {
  readonly algorithms: ReadonlySet<Algorithm>
  readonly keys: KeySet
}

export interface TrustOptions {
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Told what is wrong with an issuer's keys; once for as long as it stays wrong. */
  readonly onFault: (uri: string, cause: string) => void
  /** Sent along where the keys are fetched from an upstream itself, which may ask for it everywhere. */
  readonly upstreamSecret?: Field | undefined
}

/** The issuers that the settings trust, each with its keys still to be loaded; our own one is first, and may give any scope. */
export function trustedIssuers(
  settings: IssuerSettings & Pick<Settings, 'issuers' | 'upstreams' | 'jwksMaxStaleMs'>,
  { upstreamSecret, ...options }: TrustOptions,
): readonly TrustedIssuer[] {
  const upstreams = new Set(settings.upstreams.map(originOf))
  const terms = (issuer: IssuerSettings, scopes: ReadonlySet<string> | undefined) => ({
    ...options,
    scopes,
    maxStaleMs: settings.jwksMaxStaleMs,
    upstreamSecret: upstreams.has(originOf(issuer.jwksUri)) ? upstreamSecret : undefined,
  })
  const own = trust(settings, terms(settings, undefined))
  return [own, ...settings.issuers.map((other) => trust(other, terms(other, new Set(other.scopes))))]
}

/** Undefined for a Unix socket, which no key set is fetched from. */
function originOf(url: string): string | undefined {
  return url.startsWith('unix:') ? undefined : new URL(url).origin
}

interface IssuerTerms extends TrustOptions {
  /** Undefined: it is our own. */
  readonly scopes: ReadonlySet<string> | undefined
  readonly maxStaleMs: number
}

function trust(
  { issuer, audience, jwksUri: uri, algorithms, profile }: IssuerSettings,
  { clock, onFault, upstreamSecret, scopes, maxStaleMs }: IssuerTerms,
): TrustedIssuer {
  return {
    issuer,
    audience,
    own: scopes === undefined,
    boundOnly: profile === 'fapi',
    scopes,
    algorithms: new Set(algorithms),
    keys: new KeySet({
      uri,
      fetch: (from, signal) => fetchJwks(from, signal, upstreamSecret),
      clock,
      maxStaleMs,
      onFault: (cause) => onFault(uri, cause),
    }),
  }
}

/** The keys of all of them, to be loaded from the start to the stop of the gateway. */
export function keysOf(issuers: readonly TrustedIssuer[]): Pick<KeySet, 'start' | 'stop'> {
  return {
    start: () => issuers.forEach(({ keys }) => void keys.start()),
    stop: () => issuers.forEach(({ keys }) => void keys.stop()),
  }
}
