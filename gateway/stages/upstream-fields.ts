import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { isTrusted } from '../http/rules/client-address.ts'
import { ruleOf } from '../http/rules/field-rules.ts'
import { isNominated, nominatedBy } from '../http/rules/hop-by-hop.ts'
import { checkedField, Field } from '../http/syntax/field.ts'
import { newTraceparent } from '../http/syntax/traceparent.ts'
import type { Principal } from '../principal.ts'
import { clientCertHeader, isClientCertHeader } from '../tls/clients/client-cert.ts'
import { peerOf } from '../tls/clients/peer.ts'

/** W3C Trace Context: version 00, or a later one that begins alike and may go on; an all-zero id is no id. */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|(?<!^00.{53})-)/

/**
 * The fields that go upstream: the end-to-end fields, then who the caller is and how it came. What the gateway says is
 * added after the caller's Connection field has had its say, so it cannot be taken out again.
 */
export function upstreamFields(gateway: Gateway, exchange: Exchange): Field[] {
  const fields = [HOST.of(exchange.host)]
  const carried = copyEndToEnd(exchange, fields)
  addPath(gateway, exchange, { fields, carried })
  addTrace(fields, carried)
  if (exchange.principal !== undefined) addCaller(exchange.principal, fields)
  if (exchange.route?.clientCert === true) addCertificate(gateway, exchange, { fields, carried })
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
  /** Fields of the name Client-Cert, whoever they are from. */
  readonly certificates: Field[]
}

const NOTHING_CARRIED: Readonly<Carried> = {
  via: undefined,
  traceparent: undefined,
  traceparentRepeated: false,
  tracestates: [],
  forwarded: new Map(),
  certificates: [],
}

const REWRITTEN_FORWARDED: ReadonlySet<string> = new Set([
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
])

function copyEndToEnd(exchange: Exchange, fields: Field[]): Readonly<Carried> {
  const received = exchange.req.fields
  const nominated = nominatedBy(received)
  let carried: Carried | undefined
  for (const field of received) {
    const { lower } = field
    const part = ruleOf(lower).upstream
    if (part === 'dropped' || (nominated !== undefined && isNominated(lower, nominated))) continue
    if (part === 'copied') fields.push(field)
    else if (part === 'length') {
      if (exchange.headers.hasBody) fields.push(field)
    } else {
      carried ??= newCarried()
      if (part === 'continued') carry(carried, field)
      else if (part === 'certificate') carried.certificates.push(field)
      else if (exchange.viaTrustedProxy) keepForwarding(fields, carried, field)
    }
  }
  return carried ?? NOTHING_CARRIED
}

function newCarried(): Carried {
  return { ...NOTHING_CARRIED, tracestates: [], forwarded: new Map(), certificates: [] }
}

function carry(carried: Carried, field: Field): void {
  const { lower, value } = field
  if (lower === 'via') carried.via = carried.via === undefined ? value : `${carried.via}, ${value}`
  else if (lower === 'tracestate') carried.tracestates.push(field)
  else if (lower === 'traceparent') {
    carried.traceparentRepeated = carried.traceparent !== undefined
    carried.traceparent ??= field
  }
}

function keepForwarding(fields: Field[], carried: Carried, field: Field): void {
  const { lower, value } = field
  if (!REWRITTEN_FORWARDED.has(lower)) {
    fields.push(field)
    return
  }
  const earlier = carried.forwarded.get(lower)
  carried.forwarded.set(lower, earlier === undefined ? value : `${earlier}, ${value}`)
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
const REAL_IP = new Repeating('X-Real-IP')
const FORWARDED_PROTO = new Repeating('X-Forwarded-Proto')
const FORWARDED_HOST = new Repeating('X-Forwarded-Host')
const LOOP = new Repeating('CDN-Loop')

/** What is made of the fields that were received, and the list that grows. */
interface Making {
  readonly fields: Field[]
  readonly carried: Readonly<Carried>
}

function addPath(gateway: Gateway, exchange: Exchange, { fields, carried }: Making): void {
  const { forwarded } = carried
  const { loop } = exchange.headers
  const peer = exchange.peer
  const chain = forwarded.get('x-forwarded-for')
  fields.push(
    new Field('X-Request-ID', exchange.requestId),
    FORWARDED_FOR.of(chain === undefined ? peer : `${chain}, ${peer}`),
    FORWARDED_PROTO.of(
      forwarded.get('x-forwarded-proto') ?? (exchange.secure === undefined ? 'http' : 'https'),
    ),
    FORWARDED_HOST.of(forwarded.get('x-forwarded-host') ?? exchange.host),
    LOOP.of(loop === undefined ? gateway.loopMark : `${loop}, ${gateway.loopMark}`),
  )
  // Of the chain, whose front is up to the client, this is what may be believed; without a proxy both are the same.
  if (exchange.viaTrustedProxy) fields.push(REAL_IP.of(exchange.address))
  if (gateway.settings.via) addVia(exchange, fields, carried.via)
  else if (carried.via !== undefined) fields.push(new Field('Via', carried.via))
}

function addVia({ req }: Exchange, fields: Field[], via: string | undefined): void {
  const hop = req.version === '1.1' ? '1.1 countersign' : '1.0 countersign'
  fields.push(new Field('Via', via === undefined ? hop : `${via}, ${hop}`))
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

/**
 * RFC 9440: what the service behind may bind tokens to. A certificate that is not authorized is nobody's. Of a proxy that
 * passes certificates on it is the one that the proxy names, never the proxy's own.
 */
function addCertificate(gateway: Gateway, exchange: Exchange, { fields, carried }: Making): void {
  const { secure } = exchange
  const { clientCertProxies } = gateway.settings
  if (clientCertProxies !== undefined && isTrusted(exchange.peer, clientCertProxies)) {
    const [passedOn, another] = carried.certificates
    if (passedOn !== undefined && another === undefined && isClientCertHeader(passedOn.value))
      fields.push(passedOn)
    return
  }
  const peer = secure && peerOf(secure, gateway.tls.trust, gateway.clock())
  if (peer?.authorized === true) fields.push(new Field('Client-Cert', clientCertHeader(peer.der)))
}
