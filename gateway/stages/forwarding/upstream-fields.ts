import { isTrusted } from '../../edge/rules/client-address.ts'
import { foldedName, ruleOf } from '../../edge/rules/field-rules.ts'
import { isNominated, nominatedBy, oneHopLess } from '../../edge/rules/hop-by-hop.ts'
import type { SendingPolicy } from '../../edge/rules/policy/sending-policy.ts'
import type { HttpVersion } from '../../edge/rules/request-headers.ts'
import { INTERACTION_ID } from '../../edge/rules/request-id.ts'
import { checkedField, combinedValue, Field } from '../../edge/syntax/field.ts'
import { isTraceparent, newTraceparent } from '../../edge/syntax/traceparent.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { Principal } from '../../principal.ts'
import { clientCertHeader, isClientCertHeader } from '../../tls/clients/certificate-names.ts'
import { CommonFields } from '../../upstream/common-fields.ts'
import { certificateOf } from '../credentials/prove-certificate.ts'

/** Makes the fields for the upstream. A Connection header cannot remove those that the gateway writes. */
export function upstreamFields(
  gateway: Gateway,
  exchange: Exchange,
): { readonly common: CommonFields; readonly fields: Field[] } {
  const { headers } = exchange
  const last = headers.made
  const repeated =
    last instanceof RepeatedFields && last.fit(gateway, exchange)
      ? last
      : new RepeatedFields(gateway, exchange)
  headers.made = repeated
  const { common, trace, certificates, removed, varying } = repeated
  const fields = [new Field('X-Request-ID', exchange.requestId)]
  for (const at of varying) fields.push(exchange.req.fields[at] as Field)
  if (exchange.interactionId !== undefined) fields.push(new Field(INTERACTION_ID, exchange.interactionId))
  if (exchange.trace === undefined) exchange.traceparent = addTrace(fields, trace)
  else exchange.trace.addTo(fields)
  const passesOn =
    exchange.route?.clientCert === true && addCertificate(gateway, exchange, fields, certificates)
  if (removed.length > 0) tellRemoved(gateway, exchange, removed)
  if (certificates.length > 0 && !passesOn) tellRemoved(gateway, exchange, ['client-cert'])
  return { common, fields }
}

/** Fields that mostly differ in each request. The gateway writes X-Request-ID itself. */
const VARYING: ReadonlySet<string> = new Set([
  'content-digest',
  'content-length',
  'idempotency-key',
  'signature',
  'signature-input',
  'x-request-id',
])

/** True when two heads differ in the values of varying fields only. */
function differLittle(fields: readonly Field[], others: readonly Field[]): boolean {
  if (fields === others) return true
  return (
    fields.length === others.length &&
    fields.every((field, at) => {
      const other = others[at]
      return field === other || (field.lower === other?.lower && VARYING.has(field.lower))
    })
  )
}

/**
 * Fields for requests of a connection that differ in varying fields only. `fit` need not compare the client's address,
 * which follows from the connection, the received fields and the configuration.
 */
class RepeatedFields {
  readonly common: CommonFields
  /** A good traceparent with its tracestate, else empty. */
  readonly trace: readonly Field[]
  /** It is not checked yet who sent these Client-Cert fields. */
  readonly certificates: readonly Field[]
  /** Names for the log: fields that do not go upstream and that the gateway does not write itself. */
  readonly removed: string[] = []
  /** Indexes of the received fields that vary and go upstream. */
  readonly varying: readonly number[]
  readonly #received: readonly Field[]
  readonly #version: HttpVersion
  readonly #hasBody: boolean
  readonly #gateway: Gateway
  readonly #principal: Principal | undefined
  readonly #host: string
  readonly #isOptions: boolean
  readonly #sending: SendingPolicy | undefined
  readonly #isSigned: boolean

  constructor(gateway: Gateway, exchange: Exchange) {
    this.#received = exchange.req.fields
    this.#version = exchange.req.version
    this.#hasBody = exchange.headers.hasBody
    this.#gateway = gateway
    this.#principal = exchange.principal
    this.#host = exchange.host
    this.#isOptions = exchange.method === 'OPTIONS'
    this.#sending = exchange.route?.sending
    this.#isSigned = exchange.route?.signedTarget !== undefined
    const received = [HOST.of(this.#sending?.host ?? exchange.host)]
    const kept: Field[] = []
    const varying: number[] = []
    copyEndToEnd(exchange, received, { kept, removed: this.removed, varying })
    this.varying = this.#isSigned ? withoutOtherSignature(exchange, varying, this.removed) : varying
    this.trace = kept.length === 0 ? kept : goodTrace(kept)
    this.certificates = kept.length === 0 ? kept : kept.filter(({ lower }) => lower === 'client-cert')
    const fields = this.#sending === undefined ? received : changed(this.#sending, received)
    addForwarded(gateway, exchange, fields, kept)
    if (exchange.principal !== undefined) addCaller(exchange.principal, fields)
    if (gateway.upstreamSecret !== undefined) fields.push(gateway.upstreamSecret)
    this.common = new CommonFields(fields)
  }

  fit(gateway: Gateway, exchange: Exchange): boolean {
    return (
      differLittle(exchange.req.fields, this.#received) &&
      this.#version === exchange.req.version &&
      this.#hasBody === exchange.headers.hasBody &&
      this.#gateway === gateway &&
      this.#principal === exchange.principal &&
      this.#host === exchange.host &&
      this.#isOptions === (exchange.method === 'OPTIONS') &&
      this.#sending === exchange.route?.sending &&
      this.#isSigned === (exchange.route?.signedTarget !== undefined)
    )
  }
}

const NOMINATED = 'named by Connection'
const REWRITTEN_FORWARDED: ReadonlySet<string> = new Set([
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
])

interface SetAside {
  /** The gateway writes these again, or passes them on. */
  readonly kept: Field[]
  readonly removed: string[]
  readonly varying: number[]
}

function copyEndToEnd(exchange: Exchange, fields: Field[], { kept, removed, varying }: SetAside): void {
  const { req, method, headers, interactionId, viaTrustedProxy, route } = exchange
  const nominated = nominatedBy(req.fields)
  for (const [at, field] of req.fields.entries()) {
    const { lower } = field
    const { upstream: part, removedAs } = ruleOf(lower)
    const isNamed = nominated !== undefined && isNominated(lower, nominated)
    if (part === 'dropped' || isNamed) {
      const name = part === 'dropped' ? removedAs : NOMINATED
      if (!isNamed && isAllowed(exchange, lower)) fields.push(field)
      else if (name !== undefined) removed.push(name)
    } else if (part === 'copied' && !VARYING.has(lower)) fields.push(field)
    else if (part === 'copied') {
      if (route?.sending?.removed.has(lower) !== true) varying.push(at)
    } else if (part === 'hops') fields.push(method === 'OPTIONS' ? oneHopLess(field) : field)
    else if (part === 'length') {
      if (headers.hasBody) varying.push(at)
    } else if (part === 'interaction') {
      if (interactionId === undefined) fields.push(field)
    } else if (isAllowed(exchange, lower)) fields.push(field)
    else if (part === 'continued' || part === 'certificate') kept.push(field)
    else if (!viaTrustedProxy) removed.push(removedAs ?? lower)
    else if (REWRITTEN_FORWARDED.has(lower)) kept.push(field)
    else fields.push(field)
  }
}

/** Leaves out a Signature of another form than RFC 9421: beside it, nobody could read the gateway's own. */
function withoutOtherSignature({ req }: Exchange, sent: number[], removed: string[]): number[] {
  const isOf = (name: string) => (at: number) => req.fields[at]?.lower === name
  const isOther = isOf('signature')
  if (!sent.some(isOther) || sent.some(isOf('signature-input'))) return sent
  removed.push('signature')
  return sent.filter((at) => !isOther(at))
}

function isAllowed({ route }: Exchange, lower: string): boolean {
  return route?.sending?.allowed.has(lower) === true
}

function changed({ removed, added }: SendingPolicy, fields: readonly Field[]): Field[] {
  return [...fields.filter(({ lower }) => !removed.has(foldedName(lower))), ...added]
}

class RepeatedField {
  #last: Field

  constructor(name: string) {
    this.#last = new Field(name, '')
  }

  /** @param value read from a connection, or already checked */
  of(value: string): Field {
    if (this.#last.value !== value) this.#last = new Field(this.#last.name, value)
    return this.#last
  }
}

const HOST = new RepeatedField('host')
const FORWARDED_FOR = new RepeatedField('X-Forwarded-For')
const REAL_IP = new RepeatedField('X-Real-IP')
const FORWARDED_PROTO = new RepeatedField('X-Forwarded-Proto')
const FORWARDED_HOST = new RepeatedField('X-Forwarded-Host')
const LOOP = new RepeatedField('CDN-Loop')

function addForwarded(gateway: Gateway, exchange: Exchange, fields: Field[], kept: readonly Field[]): void {
  const { peer, address, secure } = exchange
  const { loop } = exchange.headers
  // A proxy that wrote only Forwarded has named this address.
  const chain = combinedValue(kept, 'x-forwarded-for') ?? (address === peer ? undefined : address)
  const proto = combinedValue(kept, 'x-forwarded-proto') ?? (secure === undefined ? 'http' : 'https')
  fields.push(
    FORWARDED_FOR.of(chain === undefined ? peer : `${chain}, ${peer}`),
    FORWARDED_PROTO.of(proto),
    FORWARDED_HOST.of(combinedValue(kept, 'x-forwarded-host') ?? exchange.host),
    LOOP.of(loop === undefined ? gateway.loopMark : `${loop}, ${gateway.loopMark}`),
  )
  // A client can write the beginning of X-Forwarded-For, so the service gets the address in a field of its own.
  if (exchange.viaTrustedProxy) fields.push(REAL_IP.of(address))
  const via = combinedValue(kept, 'via')
  const hop = `${exchange.req.version} countersign`
  if (gateway.settings.via) fields.push(new Field('Via', via === undefined ? hop : `${via}, ${hop}`))
  else if (via !== undefined) fields.push(new Field('Via', via))
}

/** A tracestate goes on only with its traceparent (W3C Trace Context section 3.3). */
function goodTrace(kept: readonly Field[]): readonly Field[] {
  const [traceparent, another] = kept.filter(({ lower }) => lower === 'traceparent')
  if (traceparent === undefined || another !== undefined || !isTraceparent(traceparent.value)) return []
  return [traceparent, ...kept.filter(({ lower }) => lower === 'tracestate')]
}

/** @returns the traceparent */
function addTrace(fields: Field[], trace: readonly Field[]): string {
  const traceparent = trace[0] ?? new Field('traceparent', newTraceparent())
  fields.push(traceparent)
  for (let i = 1; i < trace.length; i++) fields.push(trace[i] as Field)
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

/** @throws TypeError for a value that is not valid in a field */
function callerFields({ subject, client, session, method, scope }: Principal): Field[] {
  const fields = [checkedField('X-Auth-Method', method), checkedField('X-Auth-Scope', scope)]
  if (session !== undefined) fields.unshift(checkedField('X-Auth-Session', session))
  if (client !== undefined) fields.unshift(checkedField('X-Auth-Client', client))
  if (subject !== undefined) fields.unshift(checkedField('X-Auth-Subject', subject))
  return fields
}

/** Adds the client's certificate (RFC 9440), or a field of a trusted proxy. @returns true when it passes on a field */
function addCertificate(
  gateway: Gateway,
  exchange: Exchange,
  fields: Field[],
  [passedOn, another]: readonly Field[],
): boolean {
  const { clientCertProxies } = gateway.settings
  if (clientCertProxies !== undefined && isTrusted(exchange.peer, clientCertProxies)) {
    const isGood = passedOn !== undefined && another === undefined && isClientCertHeader(passedOn.value)
    if (isGood) fields.push(passedOn)
    return isGood
  }
  const peer = certificateOf(gateway, exchange)
  if (peer?.authorized === true) fields.push(new Field('Client-Cert', clientCertHeader(peer.der)))
  return false
}

/** Headers whose removal was logged, by route. There are few, because a family such as `x-auth-*` counts as one. */
const TOLD = new WeakMap<object, Set<string>>()

function tellRemoved(
  { log }: Pick<Gateway, 'log'>,
  { requestId, route }: Pick<Exchange, 'requestId' | 'route'>,
  removed: readonly string[],
): void {
  if (route === undefined) return
  const told = TOLD.getOrInsertComputed(route, () => new Set())
  for (const header of removed) {
    if (told.has(header)) continue
    told.add(header)
    log.info({ requestId, route: route.path, header }, 'a request header is removed')
  }
}
