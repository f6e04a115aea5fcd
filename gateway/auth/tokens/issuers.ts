import type { IssuerSettings, Settings } from '../../config/settings.ts'
import type { Field } from '../../http/syntax/field.ts'
import { KeySet } from '../keys/jwks.ts'
import { fetchJwks } from '../keys/jwks-fetch.ts'
import type { Algorithm } from '../keys/verification-key.ts'
import type { ClaimRules } from './claims.ts'

/** An issuer whose tokens are accepted, with the keys that verify only its tokens. */
export interface TrustedIssuer extends ClaimRules {
  readonly algorithms: ReadonlySet<Algorithm>
  readonly keys: KeySet
}

export interface TrustOptions {
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Reports a problem with an issuer's keys, once while it lasts. */
  readonly onFault: (uri: string, cause: string) => void
  /** Sent when keys are fetched from one of our upstreams, which may require it. */
  readonly upstreamSecret?: Field | undefined
}

/** The issuers in the settings, with keys not loaded yet. Our own is first and may grant any scope. */
export function trustedIssuers(
  settings: IssuerSettings & Pick<Settings, 'issuers' | 'upstreams' | 'jwksMaxStaleMs'>,
  { upstreamSecret, ...options }: TrustOptions,
): readonly TrustedIssuer[] {
  const upstreams = new Set(settings.upstreams.map(originOf))
  const terms = (issuer: IssuerSettings, scopes: ReadonlySet<string> | undefined) => ({
    ...options,
    scopes,
    maxStaleMs: settings.jwksMaxStaleMs,
    ...(upstreams.has(originOf(issuer.jwksUri))
      ? { upstreamSecret, otherUris: urisAtOthers(issuer.jwksUri, upstreams) }
      : {}),
  })
  const own = trust(settings, terms(settings, undefined))
  return [own, ...settings.issuers.map((other) => trust(other, terms(other, new Set(other.scopes))))]
}

/** Undefined for a Unix socket: keys are never fetched over one. */
function originOf(url: string): string | undefined {
  return url.startsWith('unix:') ? undefined : new URL(url).origin
}

/** The same document at the other upstreams, which are the same service: one of them may be down. */
function urisAtOthers(uri: string, upstreams: ReadonlySet<string | undefined>): string[] {
  const { origin, pathname, search } = new URL(uri)
  return [...upstreams].flatMap((other) =>
    other === undefined || other === origin ? [] : [other + pathname + search],
  )
}

interface IssuerTerms extends TrustOptions {
  /** The same keys at the other upstreams. */
  readonly otherUris?: readonly string[]
  /** Undefined: it is our own. */
  readonly scopes: ReadonlySet<string> | undefined
  readonly maxStaleMs: number
}

function trust(
  { issuer, audience, jwksUri: uri, algorithms, profile }: IssuerSettings,
  { clock, onFault, upstreamSecret, otherUris = [], scopes, maxStaleMs }: IssuerTerms,
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
      fetch: (from, signal) => fetchFirst([from, ...otherUris], signal, upstreamSecret),
      clock,
      maxStaleMs,
      onFault: (cause) => onFault(uri, cause),
    }),
  }
}

/** From the first URI that has it. @throws the fault of the first URI when none has it */
async function fetchFirst(uris: readonly string[], signal: AbortSignal, proof?: Field): Promise<unknown> {
  let first: unknown
  for (const uri of uris) {
    try {
      return await fetchJwks(uri, signal, proof)
    } catch (fault) {
      first ??= fault
    }
  }
  throw first
}

/** Starts and stops the loading of all their keys. */
export function keysOf(issuers: readonly TrustedIssuer[]): Pick<KeySet, 'start' | 'stop'> {
  return {
    start: () => issuers.forEach(({ keys }) => void keys.start()),
    stop: () => issuers.forEach(({ keys }) => void keys.stop()),
  }
}
