import { isTrusted } from '../../edge/rules/client-address.ts'
import { foldedName, ruleOf } from '../../edge/rules/field-rules.ts'
import { isNominated, nominatedBy, oneHopLess } from '../../edge/rules/hop-by-hop.ts'
import type { SendingPolicy } from '../../edge/rules/policy/sending-policy.ts'
import { INTERACTION_ID } from '../../edge/rules/request-id.ts'
import { checkedField, Field } from '../../edge/syntax/field.ts'
import { isTraceparent, newTraceparent } from '../../edge/syntax/traceparent.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { Principal } from '../../principal.ts'
import { clientCertHeader, isClientCertHeader } from '../../tls/clients/certificate-names.ts'
import { CommonFields } from '../../upstream/common-fields.ts'
import { certificateOf } from '../credentials/prove-certificate.ts'

/** The end-to-end fields, then how the request came and who the caller is: the client's Connection field cannot remove these. */
export function upstreamFields(
  gateway: Gateway,
  exchange: Exchange,
): { readonly common: CommonFields; readonly fields: Field[] } {
  const { common, kept } = repeatedFields(gateway, exchange)
  const fields = [new Field('X-Request-ID', exchange.requestId)]
  if (exchange.interactionId !== undefined) fields.push(new Field(INTERACTION_ID, exchange.interactionId))
  if (exchange.trace === undefined) exchange.traceparent = addTrace(fields, kept)
  else exchange.trace.addTo(fields)
  const passesOn = exchange.route?.clientCert === true && addCertificate(gateway, exchange, { fields, kept })
  if (kept.removed.size > 0) tellRemoved(gateway, exchange, kept.removed)
  if (kept.certificates.length > 0 && !passesOn) tellRemoved(gateway, exchange, CERTIFICATE)
  return { common, fields }
}

function repeatedFields(gateway: Gateway, exchange: Exchange): RepeatedFields {
  const { headers } = exchange
  const last = headers.made
  if (last instanceof RepeatedFields && last.fit(gateway, exchange)) return last
  const made = new RepeatedFields(gateway, exchange)
  headers.made = made
  return made
}

/** The fields that requests of a connection with the same received fields share. `fit` compares the rest. */
class RepeatedFields {
  readonly common: CommonFields
  readonly kept: Readonly<SetAside>
  readonly #settings: Gateway['settings']
  readonly #secret: Field | undefined
  readonly #loopMark: string
  readonly #principal: Principal | undefined
  readonly #host: string
  readonly #viaTrustedProxy: boolean
  readonly #address: string
  readonly #hasInteractionId: boolean
  readonly #isOptions: boolean
  readonly #sending: SendingPolicy | undefined

  constructor(gateway: Gateway, exchange: Exchange) {
    this.#settings = gateway.settings
    this.#secret = gateway.upstreamSecret
    this.#loopMark = gateway.loopMark
    this.#principal = exchange.principal
    this.#host = exchange.host
    this.#viaTrustedProxy = exchange.viaTrustedProxy
    this.#address = exchange.address
    this.#hasInteractionId = exchange.interactionId !== undefined
    this.#isOptions = exchange.method === 'OPTIONS'
    this.#sending = exchange.route?.sending
    const received = [HOST.of(this.#sending?.host ?? exchange.host)]
    this.kept = copyEndToEnd(exchange, received)
    const fields = this.#sending === undefined ? received : changed(this.#sending, received)
    addForwarded(gateway, exchange, { fields, kept: this.kept })
    if (exchange.principal !== undefined) addCaller(exchange.principal, fields)
    if (gateway.upstreamSecret !== undefined) fields.push(gateway.upstreamSecret)
    this.common = new CommonFields(fields)
  }

  fit(gateway: Gateway, exchange: Exchange): boolean {
    return (
      this.#settings === gateway.settings &&
      this.#secret === gateway.upstreamSecret &&
      this.#loopMark === gateway.loopMark &&
      this.#principal === exchange.principal &&
      this.#host === exchange.host &&
      this.#viaTrustedProxy === exchange.viaTrustedProxy &&
      this.#address === exchange.address &&
      this.#hasInteractionId === (exchange.interactionId !== undefined) &&
      this.#isOptions === (exchange.method === 'OPTIONS') &&
      this.#sending === exchange.route?.sending
    )
  }
}

/** The gateway writes these again. */
interface SetAside {
  via: string | undefined
  traceparent: Field | undefined
  traceparentRepeated: boolean
  readonly tracestates: Field[]
  /** By name in lower case. */
  readonly forwarded: Map<string, string>
  /** Client-Cert, not yet checked for who sent it. */
  readonly certificates: Field[]
  /** For the log: neither go upstream nor are written again. */
  readonly removed: Set<string>
}

const NOTHING_SET_ASIDE: Readonly<SetAside> = newSetAside()
const CERTIFICATE: ReadonlySet<string> = new Set(['client-cert'])
const NOMINATED = 'named by Connection'

const REWRITTEN_FORWARDED: ReadonlySet<string> = new Set([
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
])

function copyEndToEnd(exchange: Exchange, fields: Field[]): Readonly<SetAside> {
  const received = exchange.req.fields
  const nominated = nominatedBy(received)
  let kept: SetAside | undefined
  for (const field of received) {
    const { lower } = field
    const { upstream: part, removedAs } = ruleOf(lower)
    const isNamed = nominated !== undefined && isNominated(lower, nominated)
    if (part === 'dropped' || isNamed) {
      const name = part === 'dropped' ? removedAs : NOMINATED
      if (!isNamed && isAllowed(exchange, lower)) fields.push(field)
      else if (name !== undefined) {
        kept ??= newSetAside()
        kept.removed.add(name)
      }
    } else if (part === 'copied') fields.push(field)
    else if (part === 'hops') fields.push(exchange.method === 'OPTIONS' ? oneHopLess(field) : field)
    else if (part === 'length') {
      if (exchange.headers.hasBody) fields.push(field)
    } else if (part === 'interaction') {
      if (exchange.interactionId === undefined) fields.push(field)
    } else if (isAllowed(exchange, lower)) fields.push(field)
    else {
      kept ??= newSetAside()
      if (part === 'continued') setAside(kept, field)
      else if (part === 'certificate') kept.certificates.push(field)
      else if (exchange.viaTrustedProxy) setAsideForwarded(fields, kept, field)
      else kept.removed.add(removedAs ?? lower)
    }
  }
  return kept ?? NOTHING_SET_ASIDE
}

function isAllowed({ route }: Exchange, lower: string): boolean {
  return route?.sending?.allowed.has(lower) === true
}

function changed({ removed, added }: SendingPolicy, fields: readonly Field[]): Field[] {
  return [...fields.filter(({ lower }) => !removed.has(foldedName(lower))), ...added]
}

function newSetAside(): SetAside {
  return {
    via: undefined,
    traceparent: undefined,
    traceparentRepeated: false,
    tracestates: [],
    forwarded: new Map(),
    certificates: [],
    removed: new Set(),
  }
}

function setAside(kept: SetAside, field: Field): void {
  const { lower, value } = field
  if (lower === 'via') kept.via = kept.via === undefined ? value : `${kept.via}, ${value}`
  else if (lower === 'tracestate') kept.tracestates.push(field)
  else if (lower === 'traceparent') {
    kept.traceparentRepeated = kept.traceparent !== undefined
    kept.traceparent ??= field
  }
}

function setAsideForwarded(fields: Field[], kept: SetAside, field: Field): void {
  const { lower, value } = field
  if (!REWRITTEN_FORWARDED.has(lower)) {
    fields.push(field)
    return
  }
  const earlier = kept.forwarded.get(lower)
  kept.forwarded.set(lower, earlier === undefined ? value : `${earlier}, ${value}`)
}

/** Reuses the field object while its value stays the same. */
class RepeatedField {
  readonly #name: string
  #last: Field

  constructor(name: string) {
    this.#name = name
    this.#last = new Field(name, '')
  }

  /** @param value read from a connection, or checked */
  of(value: string): Field {
    if (this.#last.value !== value) this.#last = new Field(this.#name, value)
    return this.#last
  }
}

const HOST = new RepeatedField('host')
const FORWARDED_FOR = new RepeatedField('X-Forwarded-For')
const REAL_IP = new RepeatedField('X-Real-IP')
const FORWARDED_PROTO = new RepeatedField('X-Forwarded-Proto')
const FORWARDED_HOST = new RepeatedField('X-Forwarded-Host')
const LOOP = new RepeatedField('CDN-Loop')

interface Addition {
  readonly fields: Field[]
  readonly kept: Readonly<SetAside>
}

function addForwarded(gateway: Gateway, exchange: Exchange, { fields, kept }: Addition): void {
  const { forwarded } = kept
  const { loop } = exchange.headers
  const peer = exchange.peer
  // A proxy that wrote Forwarded alone named this client.
  const named = exchange.address === peer ? undefined : exchange.address
  const chain = forwarded.get('x-forwarded-for') ?? named
  const proto = forwarded.get('x-forwarded-proto') ?? (exchange.secure === undefined ? 'http' : 'https')
  fields.push(
    FORWARDED_FOR.of(chain === undefined ? peer : `${chain}, ${peer}`),
    FORWARDED_PROTO.of(proto),
    FORWARDED_HOST.of(forwarded.get('x-forwarded-host') ?? exchange.host),
    LOOP.of(loop === undefined ? gateway.loopMark : `${loop}, ${gateway.loopMark}`),
  )
  // The client can write the front of X-Forwarded-For.
  if (exchange.viaTrustedProxy) fields.push(REAL_IP.of(exchange.address))
  const hop = `${exchange.req.version} countersign`
  if (gateway.settings.via)
    fields.push(new Field('Via', kept.via === undefined ? hop : `${kept.via}, ${hop}`))
  else if (kept.via !== undefined) fields.push(new Field('Via', kept.via))
}

/** tracestate goes on only with its traceparent (W3C Trace Context section 3.3). @returns the traceparent */
function addTrace(
  fields: Field[],
  { traceparent, traceparentRepeated, tracestates }: Readonly<SetAside>,
): string {
  if (traceparent === undefined || traceparentRepeated || !isTraceparent(traceparent.value)) {
    const begun = newTraceparent()
    fields.push(new Field('traceparent', begun))
    return begun
  }
  fields.push(traceparent, ...tracestates)
  return traceparent.value
}

const CALLERS = new WeakMap<Principal, readonly Field[]>()

function addCaller(principal: Principal, fields: Field[]): void {
  let callers = CALLERS.get(principal)
  if (callers === undefined) {
    callers = callerFields(principal)
    CALLERS.set(principal, callers)
  }
  for (const field of callers) fields.push(field)
}

/** Checks the values again. @throws TypeError for one that is not valid in a field */
function callerFields({ subject, client, session, method, scope }: Principal): Field[] {
  const fields = [checkedField('X-Auth-Method', method), checkedField('X-Auth-Scope', scope)]
  if (session !== undefined) fields.unshift(checkedField('X-Auth-Session', session))
  if (client !== undefined) fields.unshift(checkedField('X-Auth-Client', client))
  if (subject !== undefined) fields.unshift(checkedField('X-Auth-Subject', subject))
  return fields
}

/** Adds the client's certificate (RFC 9440), from a proxy the one that it names. @returns whether a received field went on */
function addCertificate(gateway: Gateway, exchange: Exchange, { fields, kept }: Addition): boolean {
  const { clientCertProxies } = gateway.settings
  if (clientCertProxies !== undefined && isTrusted(exchange.peer, clientCertProxies)) {
    const [passedOn, another] = kept.certificates
    const isGood = passedOn !== undefined && another === undefined && isClientCertHeader(passedOn.value)
    if (isGood) fields.push(passedOn)
    return isGood
  }
  const peer = certificateOf(gateway, exchange)
  if (peer?.authorized === true) fields.push(new Field('Client-Cert', clientCertHeader(peer.der)))
  return false
}

/** Bounded: names that clients make up are told by their family. */
const TOLD = new WeakMap<object, Set<string>>()

/** Logs the first removal of each header by each route. */
function tellRemoved(
  { log }: Pick<Gateway, 'log'>,
  { requestId, route }: Pick<Exchange, 'requestId' | 'route'>,
  removed: ReadonlySet<string>,
): void {
  if (route === undefined) return
  let told = TOLD.get(route)
  if (told === undefined) {
    told = new Set()
    TOLD.set(route, told)
  }
  for (const header of removed) {
    if (told.has(header)) continue
    told.add(header)
    log.info({ requestId, route: route.path, header }, 'a request header is removed')
  }
}
