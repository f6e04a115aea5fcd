import type { Principal } from '../auth/principal.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { isHopByHop, isIdentityClaim, nominatedBy } from '../http/hop-by-hop.ts'
import { newTraceparent } from '../http/traceparent.ts'
import { checkedField, Field } from '../http1/field.ts'
import { clientCertHeader } from '../tls/client-cert.ts'
import { peerOf } from '../tls/peer.ts'

/** W3C Trace Context: version 00, or a later one that begins alike and may go on; an all-zero id is no id. */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|(?<!^00.{53})-)/

/** Replaced, or judged one by one below. */
const CARRIED: ReadonlySet<string> = new Set(['traceparent', 'tracestate', 'via'])
const NOT_COPIED: ReadonlySet<string> = new Set(['expect', 'host', 'x-request-id', ...CARRIED])

/**
 * The fields that go upstream: the end-to-end fields, then who the caller is and how it came. What the gateway says is
 * added after the caller's Connection field has had its say, so it cannot be taken out again.
 */
export function upstreamFields(gateway: Gateway, exchange: Exchange): Field[] {
  const fields = [HOST.of(exchange.host)]
  const carried = copyEndToEnd(exchange, fields)
  addPath(exchange, fields, carried)
  addTrace(fields, carried)
  if (exchange.principal !== undefined) addCaller(exchange.principal, fields)
  if (exchange.route?.clientCert === true) addCertificate(gateway, exchange, fields)
  if (gateway.upstreamSecret !== undefined) fields.push(gateway.upstreamSecret)
  return fields
}

/** What is read on the way and written again by the gateway. */
interface Carried {
  via: string | undefined
  traceparent: Field | undefined
  /** There is more than one traceparent. */
  traceparentRepeated: boolean
  readonly tracestates: Field[]
  /** Forwarded fields of a trusted proxy, by name in lower case. */
  readonly forwarded: Map<string, string>
}

const NOTHING_CARRIED: Readonly<Carried> = {
  via: undefined,
  traceparent: undefined,
  traceparentRepeated: false,
  tracestates: [],
  forwarded: new Map(),
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

function copyEndToEnd(exchange: Exchange, fields: Field[]): Readonly<Carried> {
  const received = exchange.req.fields
  const nominated = nominatedBy(received)
  let carried: Carried | undefined
  for (const field of received) {
    const { lower } = field
    if (isHopByHop(lower, nominated)) continue
    if (NOT_COPIED.has(lower)) {
      if (CARRIED.has(lower)) {
        carried ??= newCarried()
        carry(carried, field)
      }
    } else if (lower === 'content-length') {
      if (exchange.headers.hasBody) fields.push(field)
    } else if (!isIdentityClaim(lower)) fields.push(field)
    else if (exchange.viaTrustedProxy) {
      carried ??= newCarried()
      keepClaim(exchange, fields, { carried, field })
    }
  }
  return carried ?? NOTHING_CARRIED
}

function newCarried(): Carried {
  return { ...NOTHING_CARRIED, tracestates: [], forwarded: new Map() }
}

function carry(carried: Carried, field: Field): void {
  const { lower, value } = field
  if (lower === 'via') carried.via = carried.via === undefined ? value : `${carried.via}, ${value}`
  else if (lower === 'tracestate') carried.tracestates.push(field)
  else {
    carried.traceparentRepeated = carried.traceparent !== undefined
    carried.traceparent ??= field
  }
}

function keepClaim(
  exchange: Exchange,
  fields: Field[],
  claim: { readonly carried: Carried; readonly field: Field },
): void {
  const { lower, value } = claim.field
  // The certificate of this connection is the proxy's own.
  if (lower.startsWith('client-cert') && exchange.secure?.getPeerX509Certificate() !== undefined) return
  if (REWRITTEN_FORWARDED.has(lower)) {
    const earlier = claim.carried.forwarded.get(lower)
    claim.carried.forwarded.set(lower, earlier === undefined ? value : `${earlier}, ${value}`)
  } else if (exchange.principal === undefined || !CALLER_HEADERS.has(lower)) fields.push(claim.field)
}

/** A field that has the same value again and again is made once. */
class Repeating {
  readonly #name: string
  #last: Field

  constructor(name: string) {
    this.#name = name
    this.#last = new Field(name, '')
  }

  /** @param value of text, as everything that was read from a connection or checked before is. */
  of(value: string): Field {
    if (this.#last.value !== value) this.#last = new Field(this.#name, value)
    return this.#last
  }
}

const HOST = new Repeating('host')
const FORWARDED_FOR = new Repeating('X-Forwarded-For')
const FORWARDED_PROTO = new Repeating('X-Forwarded-Proto')
const FORWARDED_HOST = new Repeating('X-Forwarded-Host')
const VIA = new Repeating('Via')

function addPath(exchange: Exchange, fields: Field[], carried: Readonly<Carried>): void {
  const { forwarded, via } = carried
  const hop = exchange.req.version === '1.1' ? '1.1 countersign' : '1.0 countersign'
  const peer = exchange.peer
  const chain = forwarded.get('x-forwarded-for')
  fields.push(
    new Field('X-Request-ID', exchange.requestId),
    FORWARDED_FOR.of(chain === undefined ? peer : `${chain}, ${peer}`),
    FORWARDED_PROTO.of(
      forwarded.get('x-forwarded-proto') ?? (exchange.secure === undefined ? 'http' : 'https'),
    ),
    FORWARDED_HOST.of(forwarded.get('x-forwarded-host') ?? exchange.host),
    VIA.of(via === undefined ? hop : `${via}, ${hop}`),
  )
}

/** A trace that goes on keeps its state; with a new one the state of the old is lost (W3C Trace Context section 3.3). */
function addTrace(
  fields: Field[],
  { traceparent, traceparentRepeated, tracestates }: Readonly<Carried>,
): void {
  if (traceparent === undefined || traceparentRepeated || !TRACEPARENT.test(traceparent.value)) {
    fields.push(new Field('traceparent', newTraceparent()))
    return
  }
  fields.push(traceparent, ...tracestates)
}

/** What the fields of a principal are: the same ones for as long as it is remembered. */
const CALLERS = new WeakMap<Principal, readonly Field[]>()

function addCaller(principal: Principal, fields: Field[]): void {
  let callers = CALLERS.get(principal)
  if (callers === undefined) {
    callers = callerFields(principal)
    CALLERS.set(principal, callers)
  }
  for (const field of callers) fields.push(field)
}

/** A second look, in case a proof lets something else through. @throws TypeError when a value is no text. */
function callerFields({ subject, client, session, method, scope }: Principal): Field[] {
  const fields = [checkedField('X-Auth-Method', method), checkedField('X-Auth-Scope', scope)]
  if (session !== undefined) fields.unshift(checkedField('X-Auth-Session', session))
  if (client !== undefined) fields.unshift(checkedField('X-Auth-Client', client))
  if (subject !== undefined) fields.unshift(checkedField('X-Auth-Subject', subject))
  return fields
}

/** RFC 9440: what the service behind may bind tokens to. A certificate that is not authorized is nobody's. */
function addCertificate(gateway: Gateway, { secure }: Exchange, fields: Field[]): void {
  const peer = secure && peerOf(secure, gateway.tls.trust, gateway.clock())
  if (peer?.authorized === true) fields.push(new Field('Client-Cert', clientCertHeader(peer.der)))
}
