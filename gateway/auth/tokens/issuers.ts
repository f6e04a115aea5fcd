import { isDeepStrictEqual } from 'node:util'
import type { IntrospectionSettings, IssuerSettings, Settings } from '../../config/settings.ts'
import type { Field } from '../../edge/syntax/field.ts'
import { type IntrospectionOutcome, Introspector } from '../introspection/introspector.ts'
import { KeySet } from '../keys/jwks.ts'
import { fetchJwks } from '../keys/jwks-fetch.ts'
import { type Algorithm, algorithmNamed } from '../keys/signature.ts'
import type { ClaimRules } from './claims.ts'

export interface TrustedIssuer extends ClaimRules {
  readonly algorithms: ReadonlySet<Algorithm>
  readonly keys: KeySet
  readonly introspection?: IntrospectionSettings | undefined
  /** Undefined: it has no opaque tokens. */
  readonly introspector?: Introspector | undefined
}

export interface TrustOptions {
  readonly clock: () => number
  /** Reports a problem with an issuer's keys, once while it lasts. */
  readonly onFault: (uri: string, cause: string) => void
  readonly nameSession?: ((session: string) => string) | undefined
  readonly countIntrospection?: (issuer: string, outcome: IntrospectionOutcome) => void
  /** Asked at each fetch, because it may have changed. */
  readonly sources: () => KeySources
}

interface KeySources {
  readonly upstream: readonly string[]
  readonly upstreams: Readonly<Record<string, { readonly targets?: readonly string[] | undefined }>>
  /** How long keys stay in force that cannot be fetched again. */
  readonly jwksMaxStaleMs: number
  /** An upstream that publishes keys may require it. */
  readonly upstreamSecret: Field | undefined
}

/**
 * The issuers in the settings, our own first: it may grant any scope. An issuer keeps its keys if they come from where they
 * did in `before`, and one that has not changed is the same object.
 */
export function trustedIssuers(
  settings: IssuerSettings & Pick<Settings, 'issuers'>,
  options: TrustOptions,
  before: readonly TrustedIssuer[] = [],
): readonly TrustedIssuer[] {
  const others = settings.issuers.map(({ issuer }) => issuer)
  const trusted = (one: IssuerSettings, scopes: ReadonlySet<string> | undefined) => {
    const known = before.find(({ issuer }) => issuer === one.issuer)
    const own = { scopes, others: scopes === undefined ? others : [] }
    const made = withIntrospector(trust(one, own, keysFrom(one.jwksUri, options, known)), options)
    return known !== undefined && isDeepStrictEqual(termsOf(known), termsOf(made)) ? known : made
  }
  return [
    trusted(settings, undefined),
    ...settings.issuers.map((other) => trusted(other, new Set(other.scopes))),
  ]
}

/** True when keys of the issuer verify something: its tokens, or signed answers about them. */
export function usesKeys({ introspection }: TrustedIssuer): boolean {
  return introspection?.for !== 'all' || introspection.signed
}

/** The keys are compared as one object. */
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
 * An upstream gets its secret. The others of its group are asked after it, each up to 5 s: they are the same service.
 *
 * @throws the fault of the first URI when none has the keys
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

/** Undefined for a Unix socket and HTTP/2: keys are never fetched over them. */
function originOf(url: string): string | undefined {
  return /^https?:/.test(url) ? new URL(url).origin : undefined
}

function trust(
  { issuer, audience, algorithms, profile, tokens, clockToleranceMs, introspection }: IssuerSettings,
  { scopes, others }: Pick<ClaimRules, 'scopes' | 'others'>,
  keys: KeySet,
): TrustedIssuer {
  return {
    issuer,
    audiences: [audience].flat(),
    tokens,
    clockToleranceMs,
    own: scopes === undefined,
    others,
    boundOnly: profile === 'fapi',
    scopes,
    algorithms: new Set(algorithms.flatMap((one) => algorithmNamed(one) ?? [])),
    keys,
    ...(introspection && { introspection }),
  }
}

function withIntrospector(issuer: TrustedIssuer, options: TrustOptions): TrustedIssuer {
  const { introspection: settings } = issuer
  if (settings === undefined) return issuer
  const introspector = new Introspector(issuer, {
    settings,
    clock: options.clock,
    nameSession: options.nameSession,
    count: (outcome) => options.countIntrospection?.(issuer.issuer, outcome),
    onFault: (cause) => options.onFault(settings.url, cause),
  })
  return { ...issuer, introspector }
}
