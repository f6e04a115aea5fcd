import {
  JSON_TYPE,
  type RequestContent,
  type RequestRules,
} from '../../config/openapi/compiled-operations.ts'
import { parseCheckedJson } from '../../edge/bodies/checked-json.ts'
import { withoutNominated } from '../../edge/rules/hop-by-hop.ts'
import { type Field, valueIn } from '../../edge/syntax/field.ts'
import { bareMediaType, type MediaParameters, mediaParametersOf } from '../../edge/syntax/media-type.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { andThen, type Outcome, type Refusal, refusal } from '../../refusals.ts'
import { refuseEncoding, refuseMisfit } from './json-body.ts'
import { parameterMisfit } from './request-parameters.ts'
import { firstByteOrEnd, mayEndEmpty, wholeBody } from './whole-body.ts'

const BODY_MISSING = refusal('schema_violation', { detail: 'A request body is needed.' })
const UNSUPPORTED = refusal('unsupported_media_type')

/** Checks parameters and JSON body against the API's description. The body is forwarded byte for byte. */
export function validate(gateway: Gateway, exchange: Exchange): Outcome {
  const { route, method } = exchange
  const operations = route?.operations
  if (operations === undefined || route?.isShadow === true) return undefined
  const place = operations[method] ?? (method === 'HEAD' ? operations.GET : undefined)
  const rules = place && gateway.requestRules.get(place)
  if (rules === undefined) return undefined
  const fields = withoutNominated(exchange.req.fields)
  const misfit = parameterMisfit(rules, exchange, fields)
  if (misfit !== undefined) {
    const { parameter } = misfit
    return refuseMisfit(`${parameter.in} parameter ${JSON.stringify(parameter.name)}`, misfit)
  }
  if (rules.content === undefined) return undefined
  const check = () => (exchange.closed ? undefined : checkBody(gateway, exchange, rules, fields))
  return mayEndEmpty(exchange) ? firstByteOrEnd(exchange.req).then(check) : check()
}

/** A body may be only an empty last frame (HTTP/2) or chunk (HTTP/1.1). */
function isEmpty({ req, headers }: Exchange): boolean {
  if (!headers.hasBody || headers.contentLength === 0) return true
  return req.complete && req.body?.isEmpty === true
}

function checkBody(
  gateway: Gateway,
  exchange: Exchange,
  { content = [], bodyRequired }: RequestRules,
  fields: readonly Field[],
): Outcome {
  if (isEmpty(exchange)) return bodyRequired ? BODY_MISSING : undefined
  const contentType = valueIn(fields, 'content-type')
  const described = contentFor(content, contentType)
  if (described === undefined) return UNSUPPORTED
  const { fits } = described
  if (fits === undefined || contentType === undefined || !JSON_TYPE.test(bareMediaType(contentType)))
    return undefined
  const unread = refuseEncoding(contentType, fields)
  if (unread !== undefined) return unread
  return andThen(wholeBody(gateway, exchange), (body) => {
    if (!Buffer.isBuffer(body)) return body
    if (exchange.closed) return undefined
    if (body.length === 0) return bodyRequired ? BODY_MISSING : undefined
    return bodyMisfit(body, fits)
  })
}

/** `application/vnd.a+json`, with characters of tokens only (RFC 9110 section 5.6.2). */
const SUFFIXED = /^([!#$%&'*+\-.^_`|~0-9a-z]+)\/[!#$%&'*+\-.^_`|~0-9a-z]+\+([!#$%&'*\-.^_`|~0-9a-z]+)$/

/** Looks for a type under its name, else under the narrowest range, even ASP.NET's `application/*+json`. */
function contentFor(
  content: readonly RequestContent[],
  contentType: string | undefined,
): RequestContent | undefined {
  const type = bareMediaType(contentType ?? '')
  if (contentType === undefined || type === '') return undefined
  const suffix = type.replace(SUFFIXED, '$1/*+$2')
  for (const name of [type, suffix, `${type.slice(0, type.indexOf('/'))}/*`, '*/*']) {
    const same = content.filter((one) => one.type === name)
    if (same.length === 1) return same[0]
    if (same.length === 0) continue
    const parameters = mediaParametersOf(contentType)
    if (parameters === undefined) return undefined
    const fitting = same.filter((one) => hasAll(parameters, one.parameters))
    if (fitting.length > 0) return narrowest(fitting)
  }
  return undefined
}

function hasAll(parameters: MediaParameters, wanted: MediaParameters | undefined): boolean {
  return wanted !== undefined && [...wanted].every(([name, value]) => parameters.get(name) === value)
}

/** Undefined when two have equally many parameters, because a service may take either. */
function narrowest(fitting: readonly RequestContent[]): RequestContent | undefined {
  const most = Math.max(...fitting.map(({ parameters }) => parameters?.size ?? 0))
  const [one, another] = fitting.filter(({ parameters }) => parameters?.size === most)
  return another === undefined ? one : undefined
}

function bodyMisfit(body: Buffer, fits: NonNullable<RequestContent['fits']>): Refusal | undefined {
  const json = parseCheckedJson(body)
  const misfit = 'fault' in json ? { pointer: '', reason: json.fault } : fits(json.value)
  return misfit && refuseMisfit('request body', misfit)
}
