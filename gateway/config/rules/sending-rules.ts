import { foldedName, HOP_BY_HOP, ruleOf } from '../../edge/rules/field-rules.ts'
import { isTemplate, parametersOf, partsOf, segmentsOf } from '../../edge/rules/path-template.ts'
import { CORS_RESPONSE_FIELDS } from '../../edge/rules/policy/cors.ts'
import {
  isForOneCache,
  KEYED_RESPONSE_FIELDS,
  REPLACED_HEADERS,
} from '../../edge/rules/policy/response-policy.ts'
import {
  OWN_REQUEST_FIELDS,
  type Rewrite,
  type SendingPolicy,
} from '../../edge/rules/policy/sending-policy.ts'
import { isValidHost } from '../../edge/rules/request-headers.ts'
import { LIMIT_FIELDS } from '../../edge/rules/response-headers.ts'
import { isToken } from '../../edge/syntax/characters.ts'
import { Field } from '../../edge/syntax/field.ts'
import { isInCalendar } from '../../edge/syntax/timestamp.ts'
import type { JsonFile } from '../json/json-file.ts'
import { childPath } from '../json/json-path.ts'
import type { WrittenRoute } from '../keys/gateway-keys.ts'
import { routePathFault } from './path-rules.ts'
import type { AnyRow } from './row-rules.ts'

type Key = 'path' | 'rewrite' | 'upstreamHost' | 'rawPath' | 'requestHeaders' | 'deprecated' | 'sunset'
type Written = Pick<AnyRow, Key>

const HOPS: ReadonlySet<string> = new Set(HOP_BY_HOP)
/** Response fields that the gateway writes itself, or that say where a response ends. */
const OWN_RESPONSE_FIELDS: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  ...REPLACED_HEADERS,
  ...LIMIT_FIELDS,
  'alt-svc',
  'content-length',
  'date',
  'deprecation',
  'grpc-message',
  'grpc-status',
  'sec-websocket-accept',
  'sunset',
  'x-fapi-interaction-id',
  'x-revoke-session',
])

export function checkSending(json: JsonFile<unknown>, at: string, route: Written): void {
  const { requestHeaders: headers } = route
  json.check(`${at}.rewrite`, route, ({ rewrite, path }) =>
    json.sound(`${at}.path`) ? rewrite && rewriteFault(rewrite, path) : undefined,
  )
  json.check(`${at}.upstreamHost`, route.upstreamHost, hostFault)
  json.check(`${at}.rawPath`, route, ({ rawPath, rewrite }) =>
    rawPath === true && rewrite !== undefined
      ? 'must not be true beside "rewrite": the path is either changed or left as it came'
      : undefined,
  )
  for (const key of ['deprecated', 'sunset'] as const) json.check(`${at}.${key}`, route[key], dateFault)
  json.check(`${at}.sunset`, route, sunsetFault)
  const { allow = [], set = {}, remove = [] } = headers ?? {}
  if (!json.sound(`${at}.requestHeaders`)) return
  const names = [...allow, ...Object.keys(set), ...remove].map((name) => foldedName(name.toLowerCase()))
  const again = (name: string) => {
    const folded = foldedName(name.toLowerCase())
    return names.indexOf(folded) !== names.lastIndexOf(folded)
      ? `must not name ${JSON.stringify(name)} more than once in "allow", "set" and "remove": to services, names that differ only in letter case or punctuation are one`
      : undefined
  }
  json.checkEach(`${at}.requestHeaders.allow`, allow, (name) => allowFault(name) ?? again(name))
  json.checkEach(`${at}.requestHeaders.remove`, remove, (name) => changeFault(name) ?? again(name))
  for (const name of Object.keys(set))
    json.check(childPath(`${at}.requestHeaders.set`, name), name, (it) => changeFault(it) ?? again(it))
}

export function sunsetFault({
  deprecated,
  sunset,
}: Pick<Written, 'deprecated' | 'sunset'>): string | undefined {
  return deprecated !== undefined && sunset !== undefined && Date.parse(sunset) < Date.parse(deprecated)
    ? `must not be before "deprecated" (${deprecated}), but is "${sunset}" (RFC 9745 section 4)`
    : undefined
}

function rewriteFault({ prefix, path }: NonNullable<Written['rewrite']>, own: string): string | undefined {
  if (prefix !== undefined && path !== undefined) return 'must have "prefix" or "path", not both'
  const isPrefix = own.endsWith('/*')
  if (prefix !== undefined) {
    if (!isPrefix)
      return `must have "path": "prefix" is for a row that ends in "/*", and this is ${JSON.stringify(own)}`
    if (isTemplate(prefix)) return 'must not have "{" in "prefix": a row that ends in "/*" has no parameters'
    if (prefix !== '/' && prefix.endsWith('/')) return 'must have a "prefix" without a closing slash'
    const reason = prefix.endsWith('/*') ? 'must not hold "*"' : routePathFault(prefix)
    return reason && `has a "prefix" that ${reason}`
  }
  if (path === undefined) return undefined
  if (isPrefix)
    return `must have "prefix": "path" is for a row without a closing "/*", and this is ${JSON.stringify(own)}`
  const reason = path.endsWith('/*') ? 'must not hold "*"' : routePathFault(path)
  if (reason !== undefined) return `has a "path" that ${reason}`
  const known = parametersOf(own).map(({ name }) => name)
  const strange = parametersOf(path).find(({ name }) => !known.includes(name))?.name
  if (strange === undefined) return undefined
  const there = known.length === 0 ? 'which has none' : `which has {${known.join('}, {')}}`
  return `may use only parameters of the row's path, ${there}, but uses {${strange}}`
}

function hostFault(host: string): string | undefined {
  return host === 'preserve' || host === 'target' || isValidHost(host)
    ? undefined
    : `must be "preserve", "target" or a host name, perhaps with a port, but is ${JSON.stringify(host)}`
}

function dateFault(date: string): string | undefined {
  return isInCalendar(date) ? undefined : `must be a real date, but is "${date}"`
}

const ORDINARY = /^[a-z0-9-]+$/

function allowFault(name: string): string | undefined {
  const lower = name.toLowerCase()
  const shown = JSON.stringify(name)
  if (!ORDINARY.test(lower))
    return `must be the name of a header in letters, digits and hyphens, but is ${shown}`
  const reason = ownFault(name)
  if (reason !== undefined) return reason
  const { upstream } = ruleOf(lower)
  return upstream === 'dropped' || upstream === 'forwarding' || upstream === 'refused'
    ? undefined
    : `need not be named: ${shown} passes anyway`
}

function changeFault(name: string): string | undefined {
  if (!isToken(name)) return `must be the name of a header, but is ${JSON.stringify(name)}`
  const folded = foldedName(name.toLowerCase())
  if (ruleOf(folded).upstream === 'refused')
    return `must not name ${JSON.stringify(name)}: a service would act on another method than the one that was let through`
  return ownFault(name)
}

function ownFault(name: string): string | undefined {
  const folded = foldedName(name.toLowerCase())
  if (HOPS.has(folded)) return `must not name ${JSON.stringify(name)}, which is about one connection`
  return OWN_REQUEST_FIELDS.has(folded)
    ? `must not name ${JSON.stringify(name)}, which the gateway alone decides: a service trusts what it says there`
    : undefined
}

const OF_CONTENT: ReadonlySet<string> = new Set(['content-digest', 'digest', 'signature', 'signature-input'])

export function checkResponseFields(
  json: JsonFile<unknown>,
  at: string,
  headers: WrittenRoute['responseHeaders'],
): void {
  if (headers === undefined || !json.sound(at)) return
  const { set = {}, remove = [] } = headers
  const names = [...Object.keys(set), ...remove].map((name) => name.toLowerCase())
  const again = (name: string) =>
    names.indexOf(name.toLowerCase()) !== names.lastIndexOf(name.toLowerCase())
      ? `must not name ${JSON.stringify(name)} more than once in "set" and "remove"`
      : undefined
  json.checkEach(`${at}.remove`, remove, (name) => responseFault(name) ?? again(name))
  for (const name of Object.keys(set))
    json.check(childPath(`${at}.set`, name), name, (it) => responseFault(it) ?? keyedFault(it) ?? again(it))
}

function responseFault(name: string): string | undefined {
  const lower = name.toLowerCase()
  if (!isToken(name)) return `must be the name of a header, but is ${JSON.stringify(name)}`
  return OWN_RESPONSE_FIELDS.has(lower) || isForOneCache(lower)
    ? `must not name ${JSON.stringify(name)}, which the gateway alone decides`
    : undefined
}

/** Refuses a header that has a key of its own, because it would be sent twice. */
function keyedFault(name: string): string | undefined {
  const lower = name.toLowerCase()
  if (OF_CONTENT.has(lower))
    return `must not name ${JSON.stringify(name)}: no fixed value fits each response; "signatures" of a row signs them`
  const key = CORS_RESPONSE_FIELDS.includes(lower) ? 'cors' : KEYED_RESPONSE_FIELDS.get(lower)
  return key && `must not name ${JSON.stringify(name)}: write it as "${key}"`
}

/** @param route without faults @returns undefined when the route changes nothing of requests */
export function sendingPolicy(route: Pick<WrittenRoute, Key>): SendingPolicy | undefined {
  const { path, rewrite, upstreamHost, rawPath, requestHeaders } = route
  if (rewrite === undefined && upstreamHost === 'preserve' && !rawPath && requestHeaders === undefined)
    return undefined
  const { allow = [], set = {}, remove = [] } = requestHeaders ?? {}
  return {
    rewrite: rewrite && rewriteOf(rewrite, path),
    isRaw: rawPath,
    host: upstreamHost === 'preserve' || upstreamHost === 'target' ? undefined : upstreamHost,
    namesTarget: upstreamHost === 'target',
    allowed: new Set(allow.map((name) => name.toLowerCase())),
    removed: new Set([...Object.keys(set), ...remove].map((name) => foldedName(name.toLowerCase()))),
    added: Object.entries(set).map(([name, value]) => new Field(name, value)),
  }
}

function rewriteOf({ prefix, path = '' }: NonNullable<Written['rewrite']>, own: string): Rewrite {
  if (prefix !== undefined)
    return { prefix: prefix === '/' ? '' : prefix, replaced: own.length - '/*'.length }
  const places = new Map(parametersOf(own).map((place) => [place.name, place]))
  const parts = segmentsOf(path).flatMap((segment) => {
    const { names, fixed } = partsOf(segment)
    return ['/', ...fixed.flatMap((text, index) => [text, places.get(names[index] ?? '') ?? ''])]
  })
  return { parts: parts.filter((part) => part !== '') }
}

/** The header lines `Deprecation` (RFC 9745) and `Sunset` (RFC 8594). */
export function lifecycleLines({ deprecated, sunset }: Pick<Written, 'deprecated' | 'sunset'>): string {
  const since = deprecated === undefined ? '' : `Deprecation: @${Date.parse(deprecated) / 1000}\r\n`
  return sunset === undefined ? since : `${since}Sunset: ${new Date(sunset).toUTCString()}\r\n`
}
