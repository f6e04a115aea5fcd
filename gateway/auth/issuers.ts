import type { IssuerSettings, Settings } from '../config/settings.ts'
import type { Field } from '../http1/field.ts'
import type { ClaimRules } from './claims.ts'
import { KeySet } from './jwks.ts'
import { fetchJwks } from './jwks-fetch.ts'
import type { Algorithm } from './verification-key.ts'

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

/** The issuers that the settings trust, our own one first, each with its keys still to be loaded. */
export function trustedIssuers(
  settings: IssuerSettings & Pick<Settings, 'issuers' | 'upstreams'>,
  { upstreamSecret, ...options }: TrustOptions,
): readonly TrustedIssuer[] {
  const upstreams = new Set(settings.upstreams.map(originOf))
  return [settings, ...settings.issuers].map((issuer, index) => {
    const isUpstream = upstreams.has(originOf(issuer.jwksUri))
    return trust(issuer, index === 0, { ...options, upstreamSecret: isUpstream ? upstreamSecret : undefined })
  })
}

/** Undefined for a Unix socket, which no key set is fetched from. */
function originOf(url: string): string | undefined {
  return url.startsWith('unix:') ? undefined : new URL(url).origin
}

function trust(
  { issuer, audience, jwksUri: uri, algorithms, profile }: IssuerSettings,
  own: boolean,
  { clock, onFault, upstreamSecret }: TrustOptions,
): TrustedIssuer {
  return {
    issuer,
    audience,
    own,
    boundOnly: profile === 'fapi',
    algorithms: new Set(algorithms),
    keys: new KeySet({
      uri,
      fetch: (from, signal) => fetchJwks(from, signal, upstreamSecret),
      clock,
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
