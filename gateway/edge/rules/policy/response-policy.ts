import { CORS_RESPONSE_FIELDS } from './cors.ts'

/**
 * The headers of every response, besides `X-Request-ID`. `X-XSS-Protection` is obsolete but required. Browsers
 * ignore HSTS over plain HTTP (RFC 6797 section 8.1), but a TLS terminator in front passes it on.
 */
export const MANDATORY_HEADERS: readonly (readonly [name: string, value: string])[] = [
  ['Strict-Transport-Security', 'max-age=31536000; includeSubDomains'],
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  ['X-XSS-Protection', '1; mode=block'],
  ['Cache-Control', 'no-store'],
]

/** Fields, in lower case, that an upstream may not set: ours, names of software, and what replaces Cache-Control. */
export const REPLACED_HEADERS: ReadonlySet<string> = new Set([
  'strict-transport-security',
  'x-content-type-options',
  'x-frame-options',
  'x-xss-protection',
  'x-request-id',
  'cache-control',
  'cdn-cache-control',
  'edge-control',
  'surrogate-control',
  'x-accel-expires',
  'x-litespeed-cache-control',
  'server',
  'x-powered-by',
])

/** The fields, in lower case, in which the gateway signs a response. The service's own are dropped then. */
export const SIGNED_RESPONSE_FIELDS: readonly string[] = [
  'content-digest',
  'digest',
  'signature',
  'signature-input',
  'x-jws-signature',
]

/** True for a field that the caches of one network prefer to Cache-Control (RFC 9213 section 3.1). */
export function isForOneCache(lower: string): boolean {
  return lower.endsWith('-cdn-cache-control')
}

/** The key `responseHeaders`. It cannot take a mandatory header away or weaken it. */
interface ResponseHeaders {
  /** `maxAgeSeconds` is at least that of the mandatory header. */
  readonly strictTransportSecurity?: { readonly maxAgeSeconds: number; readonly preload: boolean } | undefined
  readonly contentSecurityPolicy?: string | undefined
  readonly referrerPolicy?: string | undefined
  readonly permissionsPolicy?: string | undefined
  readonly crossOriginOpenerPolicy?: string | undefined
  readonly crossOriginEmbedderPolicy?: string | undefined
  readonly crossOriginResourcePolicy?: string | undefined
  /** True when the service's Alt-Svc goes to the client. */
  readonly altSvc?: boolean | undefined
  /** Fields set in the service's responses only. */
  readonly set?: Readonly<Record<string, string>> | undefined
  readonly remove?: readonly string[] | undefined
}

/** Changes to a service's response, besides those made everywhere. Plain data. */
export interface ForwardedPolicy {
  /** Names, in lower case, of the service's fields that are dropped. */
  readonly replaced: ReadonlySet<string>
  /** Lines that the gateway adds. */
  readonly added: string
  readonly passesAltSvc: boolean
}

const REPLACING = {
  referrerPolicy: 'Referrer-Policy',
  permissionsPolicy: 'Permissions-Policy',
  crossOriginOpenerPolicy: 'Cross-Origin-Opener-Policy',
  crossOriginEmbedderPolicy: 'Cross-Origin-Embedder-Policy',
  crossOriginResourcePolicy: 'Cross-Origin-Resource-Policy',
} as const
/** Keys by the name, in lower case, of the header that they write. */
export const KEYED_RESPONSE_FIELDS: ReadonlyMap<string, string> = new Map([
  ...Object.entries(REPLACING).map(([key, name]) => [name.toLowerCase(), key] as const),
  ['content-security-policy', 'contentSecurityPolicy'],
])
const KEYS = Object.keys(REPLACING) as (keyof typeof REPLACING)[]

/** The mandatory lines, with the configured HSTS, and those of the keys in `REPLACING`. */
export function responseLines(headers: ResponseHeaders): string {
  const { strictTransportSecurity: transport } = headers
  const ofTransport =
    transport &&
    `max-age=${transport.maxAgeSeconds}; includeSubDomains${transport.preload ? '; preload' : ''}`
  let lines = ''
  for (const [name, value] of MANDATORY_HEADERS)
    lines += `${name}: ${name === 'Strict-Transport-Security' ? (ofTransport ?? value) : value}\r\n`
  for (const key of KEYS) if (headers[key] !== undefined) lines += `${REPLACING[key]}: ${headers[key]}\r\n`
  return lines
}

/**
 * Changes to a service's response. Our Content-Security-Policy is added to the service's: browsers enforce both.
 * @param others names of further headers that the gateway writes
 * @returns undefined when the response stays as it is
 */
export function forwardedPolicy(
  headers: ResponseHeaders,
  hasCors: boolean,
  others: readonly string[] = [],
): ForwardedPolicy | undefined {
  const { contentSecurityPolicy: policy, set = {}, remove = [] } = headers
  const changed = [...Object.keys(set), ...remove, ...others].map((name) => name.toLowerCase())
  const replaced = new Set<string>([...(hasCors ? CORS_RESPONSE_FIELDS : []), ...changed])
  for (const key of KEYS) if (headers[key] !== undefined) replaced.add(REPLACING[key].toLowerCase())
  let added = policy === undefined ? '' : `Content-Security-Policy: ${policy}\r\n`
  for (const [name, value] of Object.entries(set)) added += `${name}: ${value}\r\n`
  const passesAltSvc = headers.altSvc === true
  return replaced.size === 0 && added === '' && !passesAltSvc ? undefined : { replaced, added, passesAltSvc }
}
