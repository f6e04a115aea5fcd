import { GRPC_STATUSES } from '../edge/rules/grpc.ts'
import type { Attempt, Trace } from './trace.ts'

/*
 * Spans as OTLP/JSON (OTLP specification 1.10, "JSON Protobuf Encoding"): ids in hexadecimal, 64-bit numbers as text,
 * enumerations as numbers. Attributes follow the HTTP and RPC conventions 1.44. They hold no query, credential or body.
 */

export interface TracedExchange {
  readonly requestId: string
  readonly method: string
  /** `-` when the request has no target. */
  readonly recordedPath: string
  readonly host: string
  readonly address: string
  readonly peer: string
  readonly startedSteadyMs: number
  readonly route: { readonly path: string } | undefined
  readonly refusalCode: string | undefined
  readonly grpcStatus: number | undefined
  readonly headers: { readonly userAgent: string }
  readonly req: { readonly version: string }
  readonly res: { readonly headersSent: boolean }
  readonly secure: object | undefined
}

interface TracedEnd {
  /** As in the audit record: 499 when the client went away. */
  readonly statusCode: number
  readonly endMs: number
  /** Epoch milliseconds at steady time 0. */
  readonly epochOffsetMs: number
  readonly knownMethods: ReadonlySet<string>
}

const SERVER = 2
const CLIENT = 3
const ERROR = 2
const CLIENT_GONE = 499
const CLIENT_GONE_ERROR = 'client_disconnected'
/** Statuses of gRPC that are errors in a server span. In a client span, all except OK are errors. */
const SERVER_ERRORS: ReadonlySet<string> = new Set([
  'UNKNOWN',
  'DEADLINE_EXCEEDED',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
])
/** Bits of `Span.flags`. `IS_REMOTE`: the parent is of another process. `HAS_IS_REMOTE`: `IS_REMOTE` is known. */
const HAS_IS_REMOTE = 0x100
const IS_REMOTE = 0x200
const MAX_PATH_CHARS = 1024
const MAX_USER_AGENT_CHARS = 256
const MAX_METHOD_CHARS = 64
const MAX_STATE_CHARS = 512

/** An exchange's spans, separated by commas: the server's span, and one for each attempt. */
export function spansOf(trace: Trace, exchange: TracedExchange, end: TracedEnd): string {
  let text = serverSpan(trace, exchange, end)
  for (let index = 0; index < trace.attempts.length; index++)
    text += `,${clientSpan(trace, index, exchange, end)}`
  return text
}

function serverSpan(trace: Trace, exchange: TracedExchange, end: TracedEnd): string {
  const { refusalCode, headers } = exchange
  const { statusCode } = end
  const gone = isClientGone(trace, end)
  const brokenOff = refusalCode !== undefined && exchange.res.headersSent
  const sentStatus =
    !gone && !brokenOff ? statusCode : exchange.res.headersSent ? trace.attempts.at(-1)?.status : undefined
  const { grpcStatus } = exchange
  const grpcError = callError(grpcStatus)
  const isFailedCall = grpcError !== undefined && SERVER_ERRORS.has(grpcError)
  const error = gone
    ? CLIENT_GONE_ERROR
    : statusCode >= 500 || brokenOff || isFailedCall
      ? (refusalCode ?? grpcError ?? String(statusCode))
      : undefined
  const { method, route } = exchange
  const { name, attributes: ofMethod } = methodOf(method, end.knownMethods)
  const attributes =
    ofMethod +
    plain('url.scheme', exchange.secure === undefined ? 'http' : 'https') +
    text('http.route', route?.path) +
    authorityOf(exchange.host) +
    plain('network.protocol.version', exchange.req.version) +
    text('url.path', shownPath(exchange)) +
    plain('client.address', exchange.address) +
    plain('network.peer.address', exchange.peer) +
    text(
      'user_agent.original',
      headers.userAgent.slice(0, MAX_USER_AGENT_CHARS).toWellFormed() || undefined,
    ) +
    number('http.response.status_code', sentStatus) +
    callOf(exchange, !gone && refusalCode === undefined) +
    text('countersign.refusal', refusalCode) +
    plain('countersign.request_id', exchange.requestId)
  return span(trace, {
    spanId: trace.spanId,
    parentId: trace.parentId,
    name: route === undefined ? name : `${name} ${route.path}`,
    kind: SERVER,
    startMs: exchange.startedSteadyMs + end.epochOffsetMs,
    endMs: end.endMs + end.epochOffsetMs,
    attributes,
    error,
  })
}

function shownPath({ recordedPath: path }: TracedExchange): string {
  return path === '-' ? '/' : path.slice(0, MAX_PATH_CHARS)
}

function clientSpan(trace: Trace, index: number, exchange: TracedExchange, end: TracedEnd): string {
  const attempt = trace.attempts[index] as Attempt
  const { name, attributes: ofMethod } = methodOf(exchange.method, end.knownMethods)
  const origin = origins.getOrInsertComputed(attempt.upstream, originOf)
  const error = errorOf(trace, attempt, exchange, end)
  // A gateway that refuses has ended the attempt itself.
  const isAnswered =
    attempt.error === undefined && exchange.refusalCode === undefined && error !== CLIENT_GONE_ERROR
  const attributes =
    ofMethod +
    text('url.full', (origin.url ?? `http://${exchange.host}`) + shownPath(exchange)) +
    origin.attributes +
    number('http.request.resend_count', index || undefined) +
    number('http.response.status_code', attempt.status) +
    (isAnswered ? callOf(exchange, true) : '')
  return span(trace, {
    spanId: attempt.spanId,
    parentId: trace.spanId,
    name,
    kind: CLIENT,
    startMs: attempt.startMs + end.epochOffsetMs,
    endMs: (attempt.endMs ?? end.endMs) + end.epochOffsetMs,
    attributes,
    error,
  })
}

function errorOf(
  trace: Trace,
  attempt: Attempt,
  exchange: TracedExchange,
  end: TracedEnd,
): string | undefined {
  if (attempt.error !== undefined) return attempt.error
  if (isClientGone(trace, end)) return CLIENT_GONE_ERROR
  if (exchange.refusalCode !== undefined) return exchange.refusalCode
  if (exchange.grpcStatus !== undefined) return callError(exchange.grpcStatus)
  return attempt.status !== undefined && attempt.status >= 400 ? String(attempt.status) : undefined
}

/** Attributes of a gRPC call. Only methods that the service knows are named. @param isAnswered by the service */
function callOf(exchange: TracedExchange, isAnswered: boolean): string {
  const { grpcStatus } = exchange
  if (grpcStatus === undefined) return ''
  const status = GRPC_STATUSES[grpcStatus]
  const isKnown = isAnswered && status !== 'UNIMPLEMENTED'
  return (
    text('rpc.system.name', 'grpc') +
    text('rpc.response.status_code', status) +
    text('rpc.method', isKnown ? shownPath(exchange).slice(1) : '_OTHER')
  )
}

function callError(grpcStatus: number | undefined): string | undefined {
  return grpcStatus === undefined || grpcStatus === 0 ? undefined : GRPC_STATUSES[grpcStatus]
}

/** True when the client went away; services also send 499. */
function isClientGone(trace: Trace, { statusCode }: TracedEnd): boolean {
  return statusCode === CLIENT_GONE && trace.attempts.at(-1)?.status !== CLIENT_GONE
}

interface SpanFacts {
  readonly spanId: string
  readonly parentId: string | undefined
  readonly name: string
  readonly kind: number
  readonly startMs: number
  readonly endMs: number
  readonly attributes: string
  readonly error: string | undefined
}

function span(trace: Trace, facts: SpanFacts): string {
  const { parentId, name, kind, error } = facts
  const parentFlags = parentId === undefined ? 0 : HAS_IS_REMOTE | (kind === SERVER ? IS_REMOTE : 0)
  const parent = parentId === undefined ? '"' : `","parentSpanId":"${parentId}"`
  return (
    `{"traceId":"${trace.traceId}","spanId":"${facts.spanId}${parent}${stateOf(trace)},"flags":${trace.flags | parentFlags}` +
    `,"name":${JSON.stringify(name)},"kind":${kind},"startTimeUnixNano":"${nanoseconds(facts.startMs)}"` +
    `,"endTimeUnixNano":"${nanoseconds(facts.endMs)}","attributes":[${facts.attributes}` +
    (error === undefined ? ']}' : `${text('error.type', error)}],"status":{"code":${ERROR}}}`)
  )
}

/** A long tracestate is left out, as Trace Context section 3.3.1.5 allows. */
function stateOf({ tracestates }: Trace): string {
  if (tracestates.length === 0) return ''
  const state = tracestates.map(({ value }) => value).join(',')
  return state.length > MAX_STATE_CHARS ? '' : `,"traceState":${JSON.stringify(state)}`
}

/** Nanoseconds since the epoch, as text, because a double cannot hold them exactly. */
export function nanoseconds(epochMs: number): string {
  const whole = Math.floor(epochMs / 1000)
  // 1e9 keeps leading zeros.
  return whole + String(1e9 + Math.floor((epochMs - whole * 1000) * 1e6)).slice(1)
}

/** Unknown methods share one name, because callers invent them. */
function methodOf(method: string, knownMethods: ReadonlySet<string>) {
  if (knownMethods.has(method))
    return { name: method, attributes: plain('http.request.method', method).slice(1) }
  const original =
    method === '-' ? '' : text('http.request.method_original', method.slice(0, MAX_METHOD_CHARS))
  return { name: 'HTTP', attributes: plain('http.request.method', '_OTHER').slice(1) + original }
}

const AUTHORITY = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/

function text(key: string, value: string | undefined): string {
  return value === undefined ? '' : `,{"key":"${key}","value":{"stringValue":${JSON.stringify(value)}}}`
}

/** For values without characters to escape, such as an address. */
function plain(key: string, value: string): string {
  return `,{"key":"${key}","value":{"stringValue":"${value}"}}`
}

function number(key: string, value: number | undefined): string {
  return value === undefined ? '' : `,{"key":"${key}","value":{"intValue":"${value}"}}`
}

let authority = { host: '', attributes: '' }

/** Attributes of Host, the server that the caller meant. Keeps the last result, as most requests have the same Host. */
function authorityOf(host: string): string {
  if (host === authority.host) return authority.attributes
  const [, address = '', port] = AUTHORITY.exec(host) ?? []
  const ofPort = number('server.port', port === undefined ? undefined : Number(port))
  const attributes = address === '' ? '' : text('server.address', withoutBrackets(address)) + ofPort
  authority = { host, attributes }
  return attributes
}

interface Origin {
  /** Undefined for a socket file. */
  readonly url: string | undefined
  readonly attributes: string
}

/** Origins by upstream, as many as the configuration names. */
const origins = new Map<string, Origin>()

function originOf(upstream: string): Origin {
  const url = URL.parse(upstream)
  if (url === null || url.host === '') {
    const path = upstream.replace(/^unix:/, '')
    const attributes = text('server.address', path) + text('network.transport', 'unix')
    return { url: undefined, attributes }
  }
  const secure = url.protocol === 'https:' || url.protocol === 'h2:'
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port)
  const attributes =
    text('server.address', withoutBrackets(url.hostname)) +
    number('server.port', port) +
    text('network.protocol.version', url.protocol.startsWith('h2') ? '2' : '1.1')
  return { url: `${secure ? 'https' : 'http'}://${url.host}`, attributes }
}

function withoutBrackets(address: string): string {
  return address.startsWith('[') ? address.slice(1, -1) : address
}
