/**
 * What happens to a request's field on the way upstream. `dropped`: it is about one connection, the gateway writes
 * it anew, or it is a claim of the client. `length`: sent with a body only. `continued`: the gateway adds to its
 * value. `refused`: the request is refused, unless its row allows the field. `hops`: counted down for
 * OPTIONS. `forwarding`: copied if a trusted proxy sent it. `certificate`: copied if it comes from a proxy that
 * passes on client certificates. `interaction`: copied unless the gateway sends its own.
 */
type UpstreamPart =
  | 'copied'
  | 'dropped'
  | 'length'
  | 'continued'
  | 'refused'
  | 'hops'
  | 'forwarding'
  | 'certificate'
  | 'interaction'

interface FieldRule {
  /** A bit of its own when the field must not be repeated, else 0. */
  readonly once: number
  /** True when repeats count as one list. */
  readonly joined: boolean
  /** True when a row must allow the field: it overrides the method, or CGI folds its name (`X.Auth` to `X-Auth`). */
  readonly odd: boolean
  readonly upstream: UpstreamPart
  /** Its name or family (`x-auth-*`) in the log of removed fields; undefined: not logged. */
  readonly removedAs: string | undefined
}

/** Never forwarded: fields about one connection (RFC 9110 section 7.6.1), and the secret shared with the service. */
export const HOP_BY_HOP: readonly string[] = [
  'x-gateway-secret',
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]

/** Fields that readers understand differently when repeated. */
const SINGLETONS: readonly string[] = [
  'authorization',
  'content-length',
  'content-location',
  'content-range',
  'content-type',
  'date',
  'expect',
  'from',
  'host',
  'idempotency-key',
  'if-modified-since',
  'if-range',
  'if-unmodified-since',
  'max-forwards',
  'origin',
  'proxy-authorization',
  'range',
  'referer',
  'sec-websocket-key',
  'sec-websocket-version',
  'transfer-encoding',
  'user-agent',
  'webhook-id',
  'webhook-signature',
  'webhook-timestamp',
  'x-api-key',
]
const JOINED: readonly string[] = [
  'cdn-loop',
  'dpop',
  'forwarded',
  'traceparent',
  'x-fapi-interaction-id',
  'x-forwarded-for',
  'x-request-id',
]

/** Fields that say how the request came. Other `X-Forwarded-…` fields name the caller or replace the target. */
const FORWARDING: readonly string[] = [
  'forwarded',
  'x-forwarded-by',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-prefix',
  'x-forwarded-proto',
  'x-forwarded-scheme',
  'x-forwarded-server',
  'x-forwarded-ssl',
]

/** Fields that ask for another method than the one for which row and limit were found. */
const METHOD_OVERRIDES: readonly string[] = ['x-http-method', 'x-http-method-override', 'x-method-override']

/** Fields that a client can make up and some service trusts (RFC 9700 section 4.13). */
const CLAIMS: readonly string[] = [
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'cf-pseudo-ipv4',
  'fastly-client-ip',
  'fly-client-ip',
  'forwarded-for',
  'front-end-https',
  'proxy',
  'true-client-ip',
  'wl-proxy-client-ip',
  'x-amzn-oidc-identity',
  'x-azure-clientip',
  'x-azure-socketip',
  'x-client-dn',
  'x-client-i-dn',
  'x-client-ip',
  'x-client-s-dn',
  'x-cluster-client-ip',
  'x-forward-for',
  'x-forwarded',
  'x-host',
  'x-http-host-override',
  'x-override-url',
  'x-proxyuser-ip',
  'x-real-ip',
  // A service ends sessions by this field of a response. It may copy a client's field into its response.
  'x-revoke-session',
  'x-rewrite-url',
  'x-scheme',
  'x-url-scheme',
  'x-userinfo',
]
const CLAIM_PREFIXES: readonly string[] = [
  'cf-access-authenticated-user-',
  'client-cert',
  'proxy-client-',
  'proxy-ssl-',
  'proxy-user',
  'remote-',
  'ssl-',
  'tls-client-',
  'x-amzn-mtls-',
  'x-appengine-',
  'x-arr-',
  'x-auth-',
  'x-authenticated-',
  'x-authentik-',
  'x-client-cert',
  'x-client-issuer',
  'x-client-ssl',
  'x-client-subject',
  'x-client-verify',
  'x-consumer-',
  'x-credential-',
  'x-envoy-',
  'x-forwarded-',
  'x-goog-authenticated-user-',
  'x-ms-client-principal',
  'x-mtls-',
  'x-original-',
  'x-remote-',
  'x-ssl-',
  'x-tls-',
  'x-webauth-',
]

const ORDINARY_NAME = /^[a-z0-9-]*$/
const ORDINARY: FieldRule = { once: 0, joined: false, odd: false, upstream: 'copied', removedAs: undefined }
const ODD: FieldRule = { ...ORDINARY, odd: true }
const FAMILIES = CLAIM_PREFIXES.map((prefix) => ({
  prefix,
  rule: { ...ORDINARY, upstream: 'dropped', removedAs: `${prefix}*` } satisfies FieldRule,
}))

interface Removed {
  /** In lower case; `*` stands for any ending. */
  readonly names: readonly string[]
  readonly what: string
  /** When they are not removed. */
  readonly kept: string
  readonly logged: boolean
}

const OF_GATEWAY = ['proxy-authorization', 'x-gateway-secret']
/** For docs/reference. */
export const REMOVED_HEADERS: readonly Removed[] = [
  {
    names: [...CLAIMS, ...CLAIM_PREFIXES.map((prefix) => `${prefix}*`)].sort(),
    what: 'who calls, from where, or what for',
    kept: 'if `requestHeaders.allow` of the row names it, except headers that the gateway sends itself (`X-Auth-Subject` …)',
    logged: true,
  },
  {
    names: FORWARDING,
    what: 'how the request came; the gateway sends its own `X-Forwarded-For`, `-Proto` and `-Host`',
    kept: 'from `trustedProxies`; most also if `requestHeaders.allow` names them',
    logged: true,
  },
  {
    names: ['client-cert'],
    what: 'which certificate the client has',
    kept: 'from `clientCertProxies`, on a route with `clientCert`',
    logged: true,
  },
  {
    names: OF_GATEWAY,
    what: 'credentials for the gateway, not for the service',
    kept: 'never',
    logged: true,
  },
  {
    names: ['headers that `Connection` names'],
    what: 'only for this connection',
    kept: 'never',
    logged: true,
  },
  {
    names: HOP_BY_HOP.filter((name) => !OF_GATEWAY.includes(name)),
    what: 'about one connection (RFC 9110 section 7.6.1)',
    kept: 'never',
    logged: false,
  },
  {
    names: ['expect', 'host', 'x-request-id', 'x-fapi-interaction-id', 'traceparent', 'tracestate'],
    what: 'answered by the gateway, or written again by it',
    kept: 'with the same value, if that is well-formed',
    logged: false,
  },
  { names: ['content-length'], what: 'how long the body is', kept: 'if there is a body', logged: false },
]

const RULES: ReadonlyMap<string, FieldRule> = rules()
const MAX_LEARNT = 512
const learnt = new Map<string, FieldRule>()

function rules(): Map<string, FieldRule> {
  const found = new Map<string, FieldRule>()
  const put = (names: readonly string[], part: Partial<FieldRule>, isLogged = false) => {
    for (const name of names)
      found.set(name, { ...(found.get(name) ?? ORDINARY), ...part, removedAs: isLogged ? name : undefined })
  }
  for (const [index, name] of SINGLETONS.entries()) put([name], { once: 1 << index })
  put(JOINED, { joined: true })
  put([...HOP_BY_HOP, 'expect', 'host', 'x-request-id'], { upstream: 'dropped' })
  put([...OF_GATEWAY, ...CLAIMS], { upstream: 'dropped' }, true)
  put(METHOD_OVERRIDES, { upstream: 'refused', odd: true })
  put(['content-length'], { upstream: 'length' })
  put(['cdn-loop', 'traceparent', 'tracestate', 'via'], { upstream: 'continued' })
  put(['max-forwards'], { upstream: 'hops' })
  put(FORWARDING, { upstream: 'forwarding' }, true)
  put(['client-cert'], { upstream: 'certificate' }, true)
  put(['x-fapi-interaction-id'], { upstream: 'interaction' })
  return found
}

export function ruleOf(lower: string): FieldRule {
  return RULES.get(lower) ?? learnt.get(lower) ?? learn(lower)
}

function learn(lower: string): FieldRule {
  const rule = ORDINARY_NAME.test(lower)
    ? (FAMILIES.find(({ prefix }) => lower.startsWith(prefix))?.rule ?? ORDINARY)
    : oddRule(foldedName(lower))
  if (learnt.size >= MAX_LEARNT) learnt.clear()
  learnt.set(lower, rule)
  return rule
}

/** The rule for an odd name. A name that services take for a protected name never goes upstream. */
function oddRule(folded: string): FieldRule {
  if (!isProtectedName(folded)) return ODD
  const { upstream, removedAs = folded } = ruleOf(folded)
  return { ...ODD, upstream: upstream === 'refused' ? 'refused' : 'dropped', removedAs }
}

/** The name as CGI and WSGI see it. */
export function foldedName(lower: string): string {
  return lower.replace(/[^a-z0-9]/g, '-')
}

/** True when the gateway reads a field of this name or keeps it from the service. */
export function isProtectedName(lower: string): boolean {
  const { once, joined, upstream } = ruleOf(lower)
  return once !== 0 || joined || upstream !== 'copied'
}
