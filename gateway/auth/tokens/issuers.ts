import { isDeepStrictEqual } from 'node:util'
import type { IntrospectionSettings, IssuerSettings, Settings } from '../../config/settings.ts'
import type { Field } from '../../edge/syntax/field.ts'
import type { AskedIssuer } from '../introspection/answer.ts'
import { type IntrospectionOutcome, Introspector } from '../introspection/introspector.ts'
import { KeySet } from '../keys/jwks.ts'
import { fetchJwks } from '../keys/jwks-fetch.ts'
import { algorithmNamed } from '../keys/signature.ts'
import type { ClaimRules } from './claims.ts'

export interface TrustedIssuer extends AskedIssuer {
  readonly introspection?: IntrospectionSettings | undefined
  /** Undefined: it has no opaque tokens. */
  readonly introspector?: Introspector | undefined
}

export interface TrustOptions {
  readonly clock: () => number
  readonly onFault: (uri: string, cause: string) => void
  readonly nameSession?: ((session: string) => string) | undefined
  readonly countIntrospection?: (issuer: string, outcome: IntrospectionOutcome) => void
  /** Called at each fetch, because the sources may have changed. */
  readonly sources: () => KeySources
}

interface KeySources {
  readonly upstream: readonly string[]
  readonly upstreams: Readonly<Record<string, { readonly targets?: readonly string[] | undefined }>>
  readonly jwksMaxStaleMs: number
  /** Field that an upstream may require before it sends its keys. */
  readonly upstreamSecret: Field | undefined
}

/** Our own issuer is first. An issuer that has not changed since `before` keeps its object. */
export function trustedIssuers(
  settings: IssuerSettings & Pick<Settings, 'issuers'>,
  options: TrustOptions,
  before: readonly TrustedIssuer[] = [],
): readonly TrustedIssuer[] {
  const others = settings.issuers.map(({ issuer }) => issuer)
  const trust = (one: IssuerSettings, terms: Pick<ClaimRules, 'own' | 'others' | 'scopes'>) => {
    const { issuer, introspection } = one
    const known = before.find((trusted) => trusted.issuer === issuer)
    const made = {
      issuer,
      audiences: [one.audience].flat(),
      tokens: one.tokens,
      clockToleranceMs: one.clockToleranceMs,
      boundOnly: one.profile === 'fapi',
      nameSession: options.nameSession,
      algorithms: new Set(one.algorithms.flatMap((name) => algorithmNamed(name) ?? [])),
      keys: keysFrom(one.jwksUri, options, known),
      introspection,
      ...terms,
    }
    if (known !== undefined && isDeepStrictEqual(termsOf(known), termsOf(made))) return known
    return { ...made, introspector: introspection && introspectorOf(made, introspection, options) }
  }
  return [
    trust(settings, { own: true, others, scopes: undefined }),
    ...settings.issuers.map((other) => trust(other, { own: false, scopes: new Set(other.scopes) })),
  ]
}

/** True when keys of the issuer verify its tokens, or signed answers about them. */
export function usesKeys({ introspection }: TrustedIssuer): boolean {
  return introspection?.for !== 'all' || introspection.signed
}

/** The terms to compare. The key set counts by its address alone. */
function termsOf(trusted: TrustedIssuer) {
  return { ...trusted, keys: undefined, introspector: undefined, uri: trusted.keys.uri }
}

function keysFrom(uri: string, { clock, onFault, sources }: TrustOptions, known?: TrustedIssuer): KeySet {
  if (known?.keys.uri === uri) return known.keys
  return new KeySet({
    uri,
    fetch: (from, signal) => fetchFrom(from, signal, sources()),
    clock,
    maxStaleMs: () => sources().jwksMaxStaleMs,
    onFault: (cause) => onFault(uri, cause),
  })
}

/**
 * Fetches keys. If `uri` belongs to a target of an upstream, sends the upstream secret. After a fault, asks the other
 * targets of the upstream. @throws the fault of the first fetch
 */
async function fetchFrom(uri: string, signal: AbortSignal, sources: KeySources): Promise<unknown> {
  const { origin, pathname, search } = new URL(uri)
  const groups = [sources.upstream, ...Object.values(sources.upstreams).map(({ targets = [] }) => targets)]
  const own = groups.map((targets) => targets.map(originOf)).filter((origins) => origins.includes(origin))
  const others = new Set(own.flat().filter((one) => one !== undefined && one !== origin))
  const proof = own.length === 0 ? undefined : sources.upstreamSecret
  let first: unknown
  for (const one of [uri, ...[...others].map((other) => other + pathname + search)]) {
    try {
      return await fetchJwks(one, signal, proof)
    } catch (fault) {
      first ??= fault
    }
  }
  throw first
}

/** Undefined for a Unix socket and HTTP/2, over which keys are never fetched. */
function originOf(url: string): string | undefined {
  return /^https?:/.test(url) ? new URL(url).origin : undefined
}

/** A function of its own: a closure in `trustedIssuers` would keep the former issuers in memory. */
function introspectorOf(
  issuer: AskedIssuer,
  settings: IntrospectionSettings,
  { clock, countIntrospection, onFault }: TrustOptions,
): Introspector {
  return new Introspector(issuer, {
    settings,
    clock,
    count: (outcome) => countIntrospection?.(issuer.issuer, outcome),
    onFault: (cause) => onFault(settings.url, cause),
  })
}
