import type { Attempt, Trace } from './trace.ts'

/*
 * Spans as OTLP/JSON (OTLP specification 1.10, "JSON Protobuf Encoding"): ids as hexadecimal digits, 64 bit numbers as text,
 * enumerations as numbers. Attributes are those of the HTTP semantic conventions 1.44; never a query, a credential, a body.
 */

/** What a span needs of an exchange. */
export interface TracedExchange {
  readonly requestId: string
  readonly method: string
  /** `-` when the request has no target. */
  readonly path: string
  readonly host: string
  readonly address: string
  readonly peer: string
  readonly startedSteadyMs: number
  readonly route: { readonly path: string } | undefined
  readonly refusalCode: string | undefined
  readonly headers: { readonly userAgent: string }
  readonly req: { readonly version: string }
  readonly res: { readonly headersSent: boolean }
  readonly secure: object | undefined
}

/** How an exchange ended. */
export interface TracedEnd {
  /** As in its audit record: 499 when the client went away. */
  readonly statusCode: number
  /** On the steady clock. */
  readonly endMs: number
  /** Epoch milliseconds when the steady clock was at 0. */
  readonly epochOffsetMs: number
  readonly knownMethods: ReadonlySet<string>
}

const SERVER = 2
const CLIENT = 3
const ERROR = 2
const CLIENT_GONE = 499
const CLIENT_GONE_ERROR = 'client_disconnected'
/** Bits of `Span.flags`: it is known whether the parent is in another process, and it is. */
const HAS_IS_REMOTE = 0x100
const IS_REMOTE = 0x200
const MAX_PATH_CHARS = 1024
const MAX_USER_AGENT_CHARS = 256
const MAX_METHOD_CHARS = 64
const MAX_STATE_CHARS = 512
const AUTHORITY = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/

/** The spans of an exchange, separated by commas. Their number is one more than that of the attempts. */
export function spansOf(trace: Trace, exchange: TracedExchange, end: TracedEnd): string {
  let text = serverSpan(trace, exchange, end)
  for (const [index] of trace.attempts.entries()) text += `,${clientSpan(trace, index, exchange, end)}`
  return text
}

function serverSpan(trace: Trace, exchange: TracedExchange, end: TracedEnd): string {
  const { refusalCode, route, headers } = exchange
  const { statusCode } = end
  const gone = isClientGone(trace, end)
  // Its head had gone out before it was refused.
  const brokenOff = refusalCode !== undefined && exchange.res.headersSent
  const sentStatus =
    !gone && !brokenOff ? statusCode : exchange.res.headersSent ? trace.attempts.at(-1)?.status : undefined
  const error = gone
    ? CLIENT_GONE_ERROR
    : statusCode >= 500 || brokenOff
      ? (refusalCode ?? String(statusCode))
      : undefined
  const method = methodOf(exchange, end)
  const attributes =
    method.attributes +
    text('url.scheme', exchange.secure === undefined ? 'http' : 'https') +
    text('url.path', exchange.path === '-' ? '/' : exchange.path.slice(0, MAX_PATH_CHARS)) +
    (route === undefined ? '' : text('http.route', route.path)) +
    authorityOf(exchange.host) +
    text('client.address', exchange.address) +
    text('network.peer.address', exchange.peer) +
    text('network.protocol.version', exchange.req.version) +
    (headers.userAgent === ''
      ? ''
      : text('user_agent.original', headers.userAgent.slice(0, MAX_USER_AGENT_CHARS))) +
    (sentStatus === undefined ? '' : number('http.response.status_code', sentStatus)) +
    (refusalCode === undefined ? '' : text('countersign.refusal', refusalCode)) +
    text('countersign.request_id', exchange.requestId)
  return span(trace, {
    spanId: trace.spanId,
    parentId: trace.parentId,
    isParentRemote: true,
    kind: SERVER,
    name: route === undefined ? method.name : `${method.name} ${route.path}`,
    startMs: exchange.startedSteadyMs + end.epochOffsetMs,
    endMs: end.endMs + end.epochOffsetMs,
    attributes,
    error,
  })
}

function clientSpan(trace: Trace, index: number, exchange: TracedExchange, end: TracedEnd): string {
  const attempt = trace.attempts[index] as Attempt
  const method = methodOf(exchange, end)
  const origin = originOf(attempt.upstream)
  const path = exchange.path.slice(0, MAX_PATH_CHARS)
  const attributes =
    method.attributes +
    text('url.full', `${origin.url ?? `http://${exchange.host}`}${path}`) +
    origin.attributes +
    (index === 0 ? '' : number('http.request.resend_count', index)) +
    (attempt.status === undefined ? '' : number('http.response.status_code', attempt.status))
  return span(trace, {
    spanId: attempt.spanId,
    parentId: trace.spanId,
    isParentRemote: false,
    kind: CLIENT,
    name: method.name,
    startMs: attempt.startMs + end.epochOffsetMs,
    endMs: (attempt.endMs ?? end.endMs) + end.epochOffsetMs,
    attributes,
    error: errorOf(trace, attempt, exchange, end),
  })
}

/** @returns undefined for an attempt whose response was passed on and is no error. */
function errorOf(
  trace: Trace,
  attempt: Attempt,
  exchange: TracedExchange,
  end: TracedEnd,
): string | undefined {
  if (attempt.error !== undefined) return attempt.error
  if (isClientGone(trace, end)) return CLIENT_GONE_ERROR
  // The gateway itself ended it.
  if (exchange.refusalCode !== undefined) return exchange.refusalCode
  return attempt.status !== undefined && attempt.status >= 400 ? String(attempt.status) : undefined
}

/** A service may answer 499 as well. */
function isClientGone(trace: Trace, { statusCode }: TracedEnd): boolean {
  return statusCode === CLIENT_GONE && trace.attempts.at(-1)?.status !== CLIENT_GONE
}

interface SpanFacts {
  readonly spanId: string
  readonly parentId: string | undefined
  readonly isParentRemote: boolean
  readonly kind: number
  readonly name: string
  readonly startMs: number
  readonly endMs: number
  readonly attributes: string
  readonly error: string | undefined
}

function span(trace: Trace, facts: SpanFacts): string {
  const { parentId, error } = facts
  const parentFlags = parentId === undefined ? 0 : HAS_IS_REMOTE | (facts.isParentRemote ? IS_REMOTE : 0)
  const attributes = facts.attributes + (error === undefined ? '' : text('error.type', error))
  return (
    `{"traceId":"${trace.traceId}","spanId":"${facts.spanId}",` +
    (parentId === undefined ? '' : `"parentSpanId":"${parentId}",`) +
    stateOf(trace) +
    `"flags":${trace.flags | parentFlags},"name":${JSON.stringify(facts.name)},"kind":${facts.kind},` +
    `"startTimeUnixNano":"${nanoseconds(facts.startMs)}","endTimeUnixNano":"${nanoseconds(facts.endMs)}",` +
    `"attributes":[${attributes.slice(0, -1)}]${error === undefined ? '' : `,"status":{"code":${ERROR}}`}}`
  )
}

/** Trace Context section 3.3.1.5: a long one may be left out whole. */
function stateOf({ tracestates }: Trace): string {
  if (tracestates.length === 0) return ''
  const state = tracestates.map(({ value }) => value).join(',')
  return state.length > MAX_STATE_CHARS ? '' : `"traceState":${JSON.stringify(state)},`
}

/** Nanoseconds since the epoch, in text because they exceed the integers of a double. */
export function nanoseconds(epochMs: number): string {
  const ms = Math.floor(epochMs)
  return `${ms}${String(Math.floor((epochMs - ms) * 1e6)).padStart(6, '0')}`
}

/** Callers make methods up, and each would be one more name of spans. */
function methodOf({ method }: TracedExchange, { knownMethods }: TracedEnd) {
  if (knownMethods.has(method)) return { name: method, attributes: text('http.request.method', method) }
  const original =
    method === '-' ? '' : text('http.request.method_original', method.slice(0, MAX_METHOD_CHARS))
  return { name: 'HTTP', attributes: text('http.request.method', '_OTHER') + original }
}

/** Host, which says what server the caller meant. */
function authorityOf(host: string): string {
  const [, address = '', port] = AUTHORITY.exec(host) ?? []
  if (address === '') return ''
  return (
    text('server.address', withoutBrackets(address)) +
    (port === undefined ? '' : number('server.port', Number(port)))
  )
}

interface Origin {
  /** The start of URLs there; undefined for a socket file. */
  readonly url: string | undefined
  readonly attributes: string
}

/** By upstream, of which there are as many as the configuration names. */
const origins = new Map<string, Origin>()

function originOf(upstream: string): Origin {
  let origin = origins.get(upstream)
  if (origin === undefined) {
    origin = describeOrigin(upstream)
    origins.set(upstream, origin)
  }
  return origin
}

function describeOrigin(upstream: string): Origin {
  const url = URL.parse(upstream)
  if (url === null || url.host === '') {
    const path = upstream.replace(/^unix:/, '')
    return { url: undefined, attributes: text('server.address', path) + text('network.transport', 'unix') }
  }
  const secure = url.protocol === 'https:' || url.protocol === 'h2:'
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port)
  return {
    url: `${secure ? 'https' : 'http'}://${url.host}`,
    attributes:
      text('server.address', withoutBrackets(url.hostname)) +
      number('server.port', port) +
      text('network.protocol.version', url.protocol.startsWith('h2') ? '2' : '1.1'),
  }
}

function withoutBrackets(address: string): string {
  return address.startsWith('[') ? address.slice(1, -1) : address
}

/** An attribute with a comma after it. */
function text(key: string, value: string): string {
  return `{"key":"${key}","value":{"stringValue":${JSON.stringify(value)}}},`
}

function number(key: string, value: number): string {
  return `{"key":"${key}","value":{"intValue":"${value}"}},`
}
