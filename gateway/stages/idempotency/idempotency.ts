import { quote } from '../../auth/tokens/quote.ts'
import type { IdempotencyTerms } from '../../config/settings.ts'
import { filterResponseHead } from '../../edge/rules/response-headers.ts'
import { Field } from '../../edge/syntax/field.ts'
import { isBodiless } from '../../edge/syntax/status-codes.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { readIdempotencyKey } from '../../idempotency/idempotency-key.ts'
import type { KeptResponse } from '../../idempotency/key-record.ts'
import { type Begun, callerOf, type KeyKeeper } from '../../idempotency/key-table.ts'
import { KeyedExchange } from '../../idempotency/keyed-exchange.ts'
import type { Principal } from '../../principal.ts'
import { bodyTooLarge, type Outcome, type PendingRefusal, type Refusal, refusal } from '../../refusals.ts'
import { wholeBody } from '../body/whole-body.ts'
import { close } from '../close.ts'
import { signResponse } from '../response/sign-response.ts'
import { writeHead } from '../response/write-response.ts'
import { fieldsIn } from './kept-fields.ts'

const METHODS: ReadonlySet<string> = new Set(['POST', 'PATCH', 'PUT', 'DELETE'])
const REPLAYED = new Field('Idempotency-Replayed', 'true')
const PORT = /:\d*$/
const CALLERS = new WeakMap<Principal, string>()
const MISSING = refusal('idempotency_key_missing')
const INVALID = refusal('idempotency_key_invalid')
const REFUSED = {
  in_progress: refusal('idempotency_in_progress', { headers: ['Retry-After', '1'] }),
  reused: refusal('idempotency_key_reused'),
  too_many: refusal('idempotency_too_many_keys'),
  unavailable: refusal('idempotency_unavailable', { headers: ['Retry-After', '5'] }),
}

/** Begins the idempotency key of a request, or answers with its earlier outcome. */
export function idempotency(gateway: Gateway, exchange: Exchange): Outcome | PendingRefusal {
  const terms = exchange.route?.idempotency
  if (terms === undefined || !METHODS.has(exchange.method)) return undefined
  const key = keyOf(exchange, terms)
  if (key === undefined) return undefined
  if (typeof key !== 'string') {
    count(gateway, exchange, key === MISSING ? 'missing' : 'invalid')
    return key
  }
  const read = wholeBody(gateway, exchange, terms.maxRequestBytes)
  if (Buffer.isBuffer(read)) return begin(gateway, exchange, { key, terms, body: read })
  if (!(read instanceof Promise)) return read
  return read.then((body) => {
    if (!Buffer.isBuffer(body)) return body
    if (exchange.closed) return undefined
    const begun = begin(gateway, exchange, { key, terms, body })
    if (begun === undefined || 'code' in begun) return begun
    return new Promise((resolve) => begun.whenKnown((refused) => resolve(refused as Refusal | undefined)))
  })
}

/** A refusal: the key is missing or cannot be read. Undefined: the request has none and needs none. */
function keyOf({ req }: Exchange, { header, required, maxKeyLength }: IdempotencyTerms) {
  let value: string | undefined
  for (const field of req.fields) {
    if (field.lower !== header) continue
    if (value !== undefined) return refusal('invalid_header', { detail: `The ${header} header is repeated.` })
    value = field.value
  }
  if (value === undefined) return required ? MISSING : undefined
  return readIdempotencyKey(value, maxKeyLength) ?? INVALID
}

interface Keyed {
  readonly key: string
  readonly terms: IdempotencyTerms
  readonly body: Buffer
}

function begin(
  gateway: Gateway,
  exchange: Exchange,
  { key, terms, body }: Keyed,
): Refusal | undefined | PendingRefusal {
  const { idempotency: keeper } = gateway
  const { principal, route, requestId, req } = exchange
  if (keeper === undefined || principal === undefined || route === undefined)
    throw new Error('an idempotency key needs a keeper, a caller and a row')
  if (body.length > terms.maxRequestBytes) return bodyTooLarge(terms.maxRequestBytes)
  const host = exchange.host.toLowerCase().replace(PORT, '')
  let head = `${exchange.method} ${host} ${exchange.path}${exchange.query}\n`
  for (const { lower, value } of req.fields)
    if (lower === 'content-type' || lower === 'content-encoding') head += `${lower}: ${value}\n`
  let known: { readonly refused: Refusal | undefined } | undefined
  let goOn: ((refused: Refusal | Error | undefined) => void) | undefined
  keeper.begin(
    {
      key,
      caller: CALLERS.getOrInsertComputed(principal, ({ key: user, client }) => callerOf(user, client)),
      row: route.path,
      content: [head, body],
      requestId,
      keepMs: terms.keepMs,
      maxKeys: terms.maxKeys,
      resolves: terms.resolves,
      isAtTurnEnd: exchange.isAtTurnEnd,
      onStoreFailure: terms.onStoreFailure,
    },
    (begun) => {
      if (goOn === undefined) known = { refused: outcomeOf(gateway, exchange, begun, terms) }
      else goOn(lateOutcomeOf(gateway, exchange, begun, terms))
    },
  )
  if (known !== undefined) return known.refused
  return {
    whenKnown: (run) => {
      goOn = run
    },
  }
}

/** The client may have gone during the wait, and nobody else catches an error. */
function lateOutcomeOf(
  gateway: Gateway,
  exchange: Exchange,
  begun: Begun<unknown>,
  terms: IdempotencyTerms,
): Refusal | Error | undefined {
  if (exchange.closed && begun.outcome !== 'begun') return undefined
  try {
    return outcomeOf(gateway, exchange, begun, terms)
  } catch (fault) {
    return fault as Error
  }
}

function outcomeOf(
  gateway: Gateway,
  exchange: Exchange,
  begun: Begun<unknown>,
  { maxResponseBytes }: IdempotencyTerms,
): Refusal | undefined {
  if (begun.outcome === 'done') {
    const { requestId, response } = begun
    const { status, body } = response
    count(gateway, exchange, body === undefined ? 'not_kept' : 'replayed')
    if (body === undefined)
      return refusal('idempotency_response_not_kept', {
        detail: `The request with this idempotency key was completed with status ${status}; its response was too long to be kept, or there was no room for it.`,
      })
    exchange.replayOf = requestId
    replay(gateway, exchange, { ...response, body })
    return undefined
  }
  count(gateway, exchange, begun.outcome)
  if (begun.outcome === 'unknown') return unknown(gateway, exchange, begun.requestId)
  if (begun.outcome !== 'begun') return REFUSED[begun.outcome]
  exchange.keyed = new KeyedExchange(gateway.idempotency as KeyKeeper, begun.held, maxResponseBytes)
  if (exchange.closed) exchange.keyed.settle(false)
  return undefined
}

/** The cause names the first request and its caller as the trail does. */
function unknown(
  { metrics }: Gateway,
  { principal, route }: Exchange,
  requestId = 'that began the key',
): Refusal {
  const { subject, client } = { ...principal }
  const caller = Object.entries({ userId: subject, clientId: client })
    .filter(([, id]) => id !== undefined)
    .map(([member, id]) => `${member} ${quote(id)}`)
  const cause = `it is unknown whether the request ${requestId} of ${caller.join(', ')} took effect`
  metrics.causes.set(`gateway_idempotency_total ${route?.path ?? ''} unknown`, cause)
  return refusal('idempotency_unknown', { cause })
}

function count({ metrics }: Gateway, { route }: Exchange, outcome: string): void {
  metrics.gateway_idempotency_total.count(route?.path ?? '', outcome)
}

/** @param kept body of the response, latin1 */
function replay(
  gateway: Gateway,
  exchange: Exchange,
  { status, fields, body: kept }: KeptResponse & { readonly body: string },
): void {
  const body = Buffer.from(kept, 'latin1')
  const { res, route } = exchange
  const bodiless = isBodiless(exchange.method, status)
  const length = bodiless ? [] : [new Field('Content-Length', String(body.length))]
  const unsigned = filterResponseHead(
    [...fieldsIn(fields), ...length, REPLAYED],
    status,
    exchange,
    route?.forwarded,
  )
  const head = signResponse(gateway, exchange, { status, head: unsigned, body })
  if (gateway.load.phase !== 'serving') res.keepAlive = false
  close(gateway, exchange, status)
  writeHead(gateway, exchange, status, head)
  if (body.length > 0 && !bodiless) res.write(body)
  res.end()
}
