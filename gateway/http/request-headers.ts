import { isIPv6 } from 'node:net'
import type { RefusalCode } from '../refusals.ts'

/** More than these, or more than 16 KiB of them (the parser's own bound), are refused with 431. */
const MAX_HEADERS = 100

/** Headers that mean nothing, or something else to every reader, when they are repeated. */
const SINGLETONS: ReadonlySet<string> = new Set([
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
])

const HOST = /^(?:[A-Za-z0-9._-]{1,253}|\[([0-9A-Fa-f:.]{2,45})\])(?::([0-9]{1,5}))?$/
const MAX_PORT = 65_535

export interface HeaderFault {
  readonly code: RefusalCode
  readonly detail: string
}

/**
 * What the gateway itself needs of a request's headers, from one pass over the raw list. The raw list is what counts:
 * Node's parsed object has already dropped and joined repeats that an upstream may read differently.
 */
export interface RequestHeaders {
  readonly host: string | undefined
  readonly authorization: string | undefined
  /** Undefined when there is none or more than one. */
  readonly requestId: string | undefined
  /** Every value of DPoP, joined by a comma: more than one is no proof. */
  readonly dpop: string | undefined
  readonly userAgent: string
  /** Names the key that a webhook is signed with. */
  readonly apiKey: string | undefined
  readonly webhookId: string | undefined
  readonly webhookTimestamp: string | undefined
  readonly webhookSignature: string | undefined
  /** Bytes announced; undefined when the length is not known beforehand or there is no body. */
  readonly contentLength: number | undefined
  readonly hasBody: boolean
  readonly expect: string | undefined
  /** Every value of X-Forwarded-For, joined in order of appearance. */
  readonly forwardedFor: string | undefined
  /** First thing that makes the request unacceptable. */
  readonly fault: HeaderFault | undefined
}

interface Readings {
  readonly values: Map<string, string>
  fault: HeaderFault | undefined
}

/** Reads the flat list (name, value, name, value) of one request. `httpVersion` is the request's, such as `1.1`. */
export function readRequestHeaders(rawHeaders: readonly string[], httpVersion: string): RequestHeaders {
  const { values, fault } = collect(rawHeaders)
  const length = values.get('content-length')
  const coding = values.get('transfer-encoding')
  return {
    host: values.get('host'),
    authorization: values.get('authorization'),
    requestId: values.get('x-request-id'),
    dpop: values.get('dpop'),
    userAgent: values.get('user-agent') ?? '',
    apiKey: values.get('x-api-key'),
    webhookId: values.get('webhook-id'),
    webhookTimestamp: values.get('webhook-timestamp'),
    webhookSignature: values.get('webhook-signature'),
    contentLength: length === undefined ? undefined : Number(length),
    hasBody: coding !== undefined || (length !== undefined && Number(length) > 0),
    expect: values.get('expect'),
    forwardedFor: values.get('x-forwarded-for'),
    fault: versionFault(httpVersion) ?? fault ?? framingFault(length, coding, httpVersion),
  }
}

/** True when the value can stand as Host or as the authority of a target (RFC 9110 section 7.2). */
export function isValidHost(value: string | undefined): value is string {
  const parts = value === undefined ? null : HOST.exec(value)
  if (parts === null) return false
  const [, literal, port] = parts
  return (literal === undefined || isIPv6(literal)) && (port === undefined || Number(port) <= MAX_PORT)
}

/** The values that the gateway reads, by name in lower case. */
const READ: ReadonlySet<string> = new Set([...SINGLETONS, 'x-request-id', 'x-forwarded-for', 'dpop'])

function collect(rawHeaders: readonly string[]): Readings {
  const readings: Readings = { values: new Map(), fault: undefined }
  if (rawHeaders.length > MAX_HEADERS * 2) {
    readings.fault = {
      code: 'headers_too_large',
      detail: `The request has more than ${MAX_HEADERS} headers.`,
    }
  }
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase()
    if (name.includes('_')) {
      readings.fault ??= { code: 'invalid_header', detail: 'A header name contains an underscore.' }
    } else if (READ.has(name)) keep(readings, name, rawHeaders[i + 1] as string)
  }
  return readings
}

function keep(readings: Readings, name: string, value: string): void {
  const { values } = readings
  const earlier = values.get(name)
  if (earlier === undefined) values.set(name, value)
  else if (name === 'x-forwarded-for' || name === 'dpop') values.set(name, `${earlier}, ${value}`)
  // A value that no request id may have: the pair counts as none.
  else if (name === 'x-request-id') values.set(name, '')
  else readings.fault ??= repeated(name)
}

function repeated(name: string): HeaderFault {
  if (name === 'host') return { code: 'invalid_host', detail: 'The request has more than one Host.' }
  if (name === 'content-length' || name === 'transfer-encoding') {
    return { code: 'invalid_framing', detail: `The request has more than one ${name} header.` }
  }
  return { code: 'invalid_header', detail: `The ${name} header is repeated.` }
}

/** Node's parser also takes 0.9 and 2.0, whose framing is another. */
function versionFault(httpVersion: string): HeaderFault | undefined {
  if (httpVersion === '1.1' || httpVersion === '1.0') return undefined
  return { code: 'malformed_request', detail: 'The only versions accepted are HTTP/1.1 and HTTP/1.0.' }
}

/**
 * RFC 9112 section 6.1: both framings at once, a coding other than chunked, or any coding in HTTP/1.0 leave two readers
 * with two ideas of where the next request begins.
 */
function framingFault(
  length: string | undefined,
  coding: string | undefined,
  httpVersion: string,
): HeaderFault | undefined {
  if (coding !== undefined) {
    if (length !== undefined) {
      return { code: 'invalid_framing', detail: 'The request has both Content-Length and Transfer-Encoding.' }
    }
    if (coding.toLowerCase() !== 'chunked') {
      return { code: 'invalid_framing', detail: 'The only transfer coding accepted is chunked.' }
    }
    if (httpVersion === '1.0') {
      return { code: 'invalid_framing', detail: 'HTTP/1.0 has no transfer codings.' }
    }
  }
  if (length !== undefined && !/^[0-9]{1,15}$/.test(length)) {
    return { code: 'invalid_framing', detail: 'The Content-Length is not a number of bytes.' }
  }
  return undefined
}
