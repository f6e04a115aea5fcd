import { isUtf8 } from 'node:buffer'
import { isIPv6 } from 'node:net'
import type { RefusalCode } from '../../refusals.ts'
import type { Field } from '../syntax/field.ts'
import { ruleOf } from './field-rules.ts'
import { nominatedBy } from './hop-by-hop.ts'

const HOST = /^(?:[A-Za-z0-9._-]{1,253}|\[([0-9A-Fa-f:.]{2,45})\])(?::([0-9]{0,5}))?$/
const MAX_PORT = 65_535
const BEYOND_ASCII = /[\x80-\xff]/

export type HttpVersion = '1.0' | '1.1' | '2'

interface HeaderFault {
  readonly code: RefusalCode
  readonly detail: string
}

export class RequestHeaders {
  host: string | undefined = undefined
  hasValidHost = false
  authorization: string | undefined = undefined
  /** Empty, and so invalid, when repeated; so are `interactionId` and `traceparent`. */
  requestId: string | undefined = undefined
  interactionId: string | undefined = undefined
  /** Undefined also when Connection names it. */
  traceparent: string | undefined = undefined
  /** All values, joined by commas: more than one is no proof. */
  dpop: string | undefined = undefined
  userAgent = ''
  contentLength: number | undefined = undefined
  hasBody = false
  expect: string | undefined = undefined
  /** All values in order, joined by commas; so are `forwarded` and `loop`. */
  forwardedFor: string | undefined = undefined
  forwarded: string | undefined = undefined
  /** CDN-Loop (RFC 8586): the proxies that the request has passed. */
  loop: string | undefined = undefined
  /** Names, in lower case, that a row must allow: `odd` in `FieldRule`. */
  oddNames: string[] | undefined = undefined
  fault: HeaderFault | undefined = undefined
  /** Made from all fields by a later stage, which may use it again for the next request of the connection. */
  made: object | undefined = undefined
}

/** @param maxFields more are refused with 431 */
export function readRequestHeaders(
  fields: readonly Field[],
  version: HttpVersion,
  maxFields: number,
): RequestHeaders {
  const headers = new RequestHeaders()
  if (fields.length > maxFields)
    headers.fault = { code: 'headers_too_large', detail: `The request has more than ${maxFields} headers.` }
  const framing: Framing = { length: undefined, coding: undefined }
  let met = 0
  for (const field of fields) {
    const { lower, value } = field
    const rule = ruleOf(lower)
    const { once } = rule
    if (once !== 0) {
      if ((met & once) === 0) take(headers, framing, field)
      else headers.fault ??= repeated(lower)
      met |= once
    } else if (rule.joined) join(headers, lower, value)
    else if (rule.odd) {
      headers.oddNames ??= []
      headers.oddNames.push(lower)
    }
  }
  // If Connection names `traceparent`, the trace ends here.
  if (headers.traceparent !== undefined && nominatedBy(fields)?.has('traceparent') === true)
    headers.traceparent = undefined
  headers.hasValidHost = isValidHost(headers.host)
  const { length, coding } = framing
  headers.contentLength = length === undefined ? undefined : Number(length)
  headers.hasBody = coding !== undefined || (headers.contentLength ?? 0) > 0
  if (length !== undefined || coding !== undefined) headers.fault ??= framingFault(framing, version)
  return headers
}

interface Framing {
  length: string | undefined
  coding: string | undefined
}

function take(headers: RequestHeaders, framing: Framing, { lower, value }: Field): void {
  if (lower === 'host') headers.host = value
  else if (lower === 'authorization') headers.authorization = value
  else if (lower === 'user-agent') headers.userAgent = BEYOND_ASCII.test(value) ? decoded(value) : value
  else if (lower === 'content-length') framing.length = value
  else if (lower === 'transfer-encoding') framing.coding = value
  else if (lower === 'expect') headers.expect = value
}

/** Decodes UTF-8; other bytes stay latin1. */
function decoded(value: string): string {
  const bytes = Buffer.from(value, 'latin1')
  return isUtf8(bytes) ? bytes.toString('utf8') : value
}

function join(headers: RequestHeaders, lower: string, value: string): void {
  // An empty value is never valid.
  if (lower === 'x-request-id') headers.requestId = headers.requestId === undefined ? value : ''
  else if (lower === 'traceparent') headers.traceparent = headers.traceparent === undefined ? value : ''
  else if (lower === 'x-fapi-interaction-id')
    headers.interactionId = headers.interactionId === undefined ? value : ''
  else if (lower === 'dpop') headers.dpop = joined(headers.dpop, value)
  else if (lower === 'cdn-loop') headers.loop = joined(headers.loop, value)
  else if (lower === 'forwarded') headers.forwarded = joined(headers.forwarded, value)
  else headers.forwardedFor = joined(headers.forwardedFor, value)
}

function joined(earlier: string | undefined, value: string): string {
  return earlier === undefined ? value : `${earlier}, ${value}`
}

/** True for a value of Host or an authority (RFC 9110 section 7.2). */
export function isValidHost(value: string | undefined): value is string {
  const parts = value === undefined ? null : HOST.exec(value)
  if (parts === null) return false
  const [, literal, port] = parts
  return (literal === undefined || isIPv6(literal)) && (port === undefined || Number(port) <= MAX_PORT)
}

function repeated(name: string): HeaderFault {
  if (name === 'host') return { code: 'invalid_host', detail: 'The request has more than one Host.' }
  if (name === 'content-length' || name === 'transfer-encoding')
    return { code: 'invalid_framing', detail: `The request has more than one ${name} header.` }
  return { code: 'invalid_header', detail: `The ${name} header is repeated.` }
}

/** Refuses a request when two readers could disagree on where the next one begins (RFC 9112 section 6.1). */
function framingFault({ length, coding }: Framing, version: HttpVersion): HeaderFault | undefined {
  if (coding !== undefined) {
    if (length !== undefined)
      return invalidFraming('The request has both Content-Length and Transfer-Encoding.')
    if (coding.toLowerCase() !== 'chunked')
      return invalidFraming('The only transfer coding accepted is chunked.')
    if (version === '1.0') return invalidFraming('HTTP/1.0 has no transfer codings.')
  }
  if (length !== undefined && !/^[0-9]{1,15}$/.test(length))
    return invalidFraming('The Content-Length is not a number of bytes.')
  return undefined
}

function invalidFraming(detail: string): HeaderFault {
  return { code: 'invalid_framing', detail }
}
