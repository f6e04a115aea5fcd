import { type Field, valueIn } from '../../syntax/field.ts'

/** Cross-origin resource sharing (Fetch standard, section 3.3) of a route. Plain data. */
export interface Cors {
  /** True when any origin may read; never together with credentials. */
  readonly isPublic: boolean
  /** As browsers write them: scheme, host, and port unless it is the default. */
  readonly origins: ReadonlySet<string>
  readonly patterns: readonly RegExp[]
  /** As the operator wrote them, for the log. */
  readonly written: readonly string[]
  readonly methods: ReadonlySet<string>
  /** In lower case. */
  readonly headers: ReadonlySet<string>
  /** Lines of every response to an allowed origin, after the line that names it. */
  readonly lines: string
  /** Lines by which the browser checks whether it may send its request. */
  readonly preflightLines: string
}

/** The key `cors` of a route, with its defaults. */
export interface CorsTerms {
  readonly origins: readonly string[]
  readonly credentials: boolean
  readonly methods: readonly string[]
  readonly headers: readonly string[]
  readonly exposedHeaders: readonly string[]
  readonly maxAgeSeconds: number
}

/** Response fields that give a browser permissions: the gateway's replace the service's. */
export const CORS_RESPONSE_FIELDS: readonly string[] = [
  'access-control-allow-credentials',
  'access-control-allow-headers',
  'access-control-allow-local-network',
  'access-control-allow-methods',
  'access-control-allow-origin',
  'access-control-allow-private-network',
  'access-control-expose-headers',
  'access-control-max-age',
]

const ANY = '*'
const SAFELISTED_METHODS = ['GET', 'HEAD', 'POST']
/** Longer origins match no pattern: a host name has 253 characters at most. */
const MAX_ORIGIN_LENGTH = 300
/** At most this many headers of a preflight are checked. */
const MAX_ASKED = 50
export const VARY = 'Vary: Origin\r\n'
const VARY_PREFLIGHT = 'Vary: Access-Control-Request-Method, Access-Control-Request-Headers\r\n'

export function corsOf(terms: CorsTerms): Cors {
  const { origins, credentials, methods, headers, exposedHeaders, maxAgeSeconds } = terms
  const withCredentials = credentials ? 'Access-Control-Allow-Credentials: true\r\n' : ''
  const patterns = origins.filter((origin) => origin !== ANY && origin.includes(ANY))
  return {
    isPublic: origins.includes(ANY),
    origins: new Set(origins.filter((origin) => !origin.includes(ANY))),
    patterns: patterns.map(patternOf),
    written: origins,
    methods: new Set([...methods, ...SAFELISTED_METHODS]),
    headers: new Set(headers.map((name) => name.toLowerCase())),
    lines:
      withCredentials +
      (exposedHeaders.length > 0 ? `Access-Control-Expose-Headers: ${exposedHeaders.join(', ')}\r\n` : ''),
    preflightLines:
      `Access-Control-Allow-Methods: ${methods.join(', ')}\r\n` +
      (headers.length > 0 ? `Access-Control-Allow-Headers: ${headers.join(', ')}\r\n` : '') +
      `Access-Control-Max-Age: ${maxAgeSeconds}\r\n${VARY_PREFLIGHT}`,
  }
}

/** Compiles an origin. `*.` matches one label or more, and `:*` at the end matches any port or none. */
function patternOf(origin: string): RegExp {
  const escaped = origin.replace(/[.[\]]/g, '\\$&')
  const labels = '[a-z0-9-]+(?:\\.[a-z0-9-]+)*'
  return new RegExp(`^${escaped.replace(/:\*$/, '(?::[0-9]{1,5})?').replace('//*', `//${labels}`)}$`)
}

export function allowsOrigin({ isPublic, origins, patterns }: Cors, origin: string): boolean {
  if (isPublic || origins.has(origin)) return true
  return origin.length <= MAX_ORIGIN_LENGTH && patterns.some((pattern) => pattern.test(origin))
}

/** For the log: foreign text is cut and quoted. */
export function whyNotAllowed({ written }: Cors, origin: string): string {
  return `origin ${shown(origin)} is not one of "cors.origins": ${written.join(', ')}`
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, MAX_ORIGIN_LENGTH))
}

/** @param fields of the request */
export function corsLines(cors: Cors, fields: readonly Field[]): string {
  if (cors.isPublic) return `Access-Control-Allow-Origin: *\r\n${cors.lines}`
  const origin = valueIn(fields, 'origin')
  if (origin === undefined || !allowsOrigin(cors, origin)) return VARY
  return `Access-Control-Allow-Origin: ${origin}\r\n${cors.lines}${VARY}`
}

interface Preflight {
  readonly origin: string
  readonly requestedMethod: string
}

/** Why the route does not permit a preflight, for the log; undefined when it does. */
export function whyNotPermitted(
  { methods, headers }: Cors,
  { origin, requestedMethod }: Preflight,
  fields: readonly Field[],
): string | undefined {
  const asked = valueIn(fields, 'access-control-request-headers') ?? ''
  const names = asked.toLowerCase().split(/[\s,]+/, MAX_ASKED)
  const lacking = names.filter((name) => name !== '' && !headers.has(name))
  const found = `which a page of ${shown(origin)} wants`
  if (lacking.length > 0) return `"cors.headers" lacks ${shown(lacking.join(', '))}, ${found}`
  return methods.has(requestedMethod) ? undefined : `"cors.methods" lacks ${shown(requestedMethod)}, ${found}`
}

/** Reads a preflight. @returns undefined for any other request */
export function preflightIn(method: string, fields: readonly Field[]): Preflight | undefined {
  if (method !== 'OPTIONS') return undefined
  const origin = valueIn(fields, 'origin')
  const requestedMethod = valueIn(fields, 'access-control-request-method')
  return origin === undefined || requestedMethod === undefined ? undefined : { origin, requestedMethod }
}

const HOST = '(?:[a-z0-9-]+(?:\\.[a-z0-9-]+)*|\\[[0-9a-f:.]+\\])'
const ORIGIN = new RegExp(`^[a-z][a-z0-9+.-]*://(?:\\*\\.)?${HOST}(?::(?:[0-9]{1,5}|\\*))?$`)
const DEFAULT_PORT = /^(?:http:.*:80|https:.*:443)$/

export function originFault(origin: string): string | undefined {
  const found = `but is ${JSON.stringify(origin)}`
  if (origin === ANY) return undefined
  if (origin === 'null') return 'must not be "null": any page can make itself an origin of that name'
  if (origin !== origin.toLowerCase()) return `must be in lower case, as browsers send it, ${found}`
  if (!ORIGIN.test(origin))
    return `must be "*", or scheme, host and perhaps a port, but no path: "https://app.example", "https://*.app.example" or "http://localhost:*", ${found}`
  if (/^[^*]*\*\.[^.:]+(?::|$)/.test(origin))
    return `must name more than a top-level domain behind "*.", ${found}`
  return DEFAULT_PORT.test(origin) ? `must leave out the scheme's default port, ${found}` : undefined
}
