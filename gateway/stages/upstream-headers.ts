import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { isHopByHop, isIdentityClaim, nominatedBy } from '../http/hop-by-hop.ts'
import { newTraceparent } from '../http/traceparent.ts'
import { clientCertHeader } from '../tls/client-cert.ts'
import { peerOf } from '../tls/peer.ts'

/** W3C Trace Context: version 00, or a later one that begins alike and may go on; an all-zero id is no id. */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|(?<!^00.{53})-)/

/** Replaced or judged one by one below. */
const NOT_COPIED: ReadonlySet<string> = new Set([
  'expect',
  'host',
  'traceparent',
  'tracestate',
  'via',
  'x-request-id',
])

/**
 * The flat header list that goes upstream: the end-to-end headers, then who the caller is and how it came. What the
 * gateway says is added after the caller's Connection header has had its say, so it cannot be taken out again.
 */
export function upstreamHeaders(gateway: Gateway, exchange: Exchange): string[] {
  const carried: Carried = { via: undefined, traceparents: [], tracestates: [], forwarded: new Map() }
  const headers = ['host', exchange.host]
  copyEndToEnd(exchange, headers, carried)
  addPath(exchange, headers, carried)
  addTrace(headers, carried)
  addCaller(exchange, headers)
  if (exchange.route?.clientCert === true) addCertificate(gateway, exchange, headers)
  return headers
}

/** What is read on the way and written again by the gateway. */
interface Carried {
  via: string | undefined
  readonly traceparents: string[]
  readonly tracestates: string[]
  /** Forwarded headers of a trusted proxy, by name in lower case. */
  readonly forwarded: Map<string, string>
}

const REWRITTEN_FORWARDED: ReadonlySet<string> = new Set([
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
])
const CALLER_HEADERS: ReadonlySet<string> = new Set([
  'x-auth-subject',
  'x-auth-client',
  'x-auth-method',
  'x-auth-scope',
  'x-auth-session',
])

function copyEndToEnd(exchange: Exchange, headers: string[], carried: Carried): void {
  const raw = exchange.req.rawHeaders
  const nominated = nominatedBy(raw)
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string
    const value = raw[i + 1] as string
    const lower = name.toLowerCase()
    if (isHopByHop(lower, nominated)) continue
    if (NOT_COPIED.has(lower)) carry(carried, lower, value)
    else if (lower === 'content-length') {
      if (exchange.headers.hasBody) headers.push(name, value)
    } else if (!isIdentityClaim(lower)) headers.push(name, value)
    else if (exchange.viaTrustedProxy) keepClaim(exchange, headers, { carried, name, value })
  }
}

function carry(carried: Carried, lower: string, value: string): void {
  if (lower === 'via') carried.via = carried.via === undefined ? value : `${carried.via}, ${value}`
  else if (lower === 'traceparent') carried.traceparents.push(value)
  else if (lower === 'tracestate') carried.tracestates.push(value)
}

function keepClaim(
  exchange: Exchange,
  headers: string[],
  claim: { readonly carried: Carried; readonly name: string; readonly value: string },
): void {
  const lower = claim.name.toLowerCase()
  // The certificate of this connection is the proxy's own.
  if (lower.startsWith('client-cert') && exchange.secure?.getPeerX509Certificate() !== undefined) return
  if (REWRITTEN_FORWARDED.has(lower)) {
    const earlier = claim.carried.forwarded.get(lower)
    claim.carried.forwarded.set(lower, earlier === undefined ? claim.value : `${earlier}, ${claim.value}`)
  } else if (exchange.principal === undefined || !CALLER_HEADERS.has(lower))
    headers.push(claim.name, claim.value)
}

function addPath(exchange: Exchange, headers: string[], carried: Carried): void {
  const { forwarded, via } = carried
  const hop = `${exchange.req.version} countersign`
  const peer = exchange.req.socket.remoteAddress?.replace(/^::ffff:(?=.*\.)/, '') ?? exchange.address
  const chain = forwarded.get('x-forwarded-for')
  headers.push('X-Request-ID', exchange.requestId)
  headers.push('X-Forwarded-For', chain === undefined ? peer : `${chain}, ${peer}`)
  headers.push(
    'X-Forwarded-Proto',
    forwarded.get('x-forwarded-proto') ?? (exchange.secure === undefined ? 'http' : 'https'),
  )
  headers.push('X-Forwarded-Host', forwarded.get('x-forwarded-host') ?? exchange.host)
  headers.push('Via', via === undefined ? hop : `${via}, ${hop}`)
}

/** A trace that goes on keeps its state; with a new one the state of the old is lost (W3C Trace Context section 3.3). */
function addTrace(headers: string[], { traceparents, tracestates }: Carried): void {
  const [traceparent] = traceparents
  if (traceparents.length !== 1 || traceparent === undefined || !TRACEPARENT.test(traceparent)) {
    headers.push('traceparent', newTraceparent())
    return
  }
  headers.push('traceparent', traceparent)
  for (const tracestate of tracestates) headers.push('tracestate', tracestate)
}

function addCaller(exchange: Exchange, headers: string[]): void {
  const principal = exchange.principal
  if (principal === undefined) return
  if (principal.subject !== undefined) headers.push('X-Auth-Subject', principal.subject)
  if (principal.client !== undefined) headers.push('X-Auth-Client', principal.client)
  if (principal.session !== undefined) headers.push('X-Auth-Session', principal.session)
  headers.push('X-Auth-Method', principal.method, 'X-Auth-Scope', principal.scope)
}

/** RFC 9440: what the service behind may bind tokens to. A certificate that is not authorized is nobody's. */
function addCertificate(gateway: Gateway, { secure }: Exchange, headers: string[]): void {
  const peer = secure && peerOf(secure, gateway.tls.trust, gateway.clock())
  if (peer?.authorized === true) headers.push('Client-Cert', clientCertHeader(peer.der))
}
