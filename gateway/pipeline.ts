import type { ReceivedRequest } from './edge/http1/handler.ts'
import type { Exchange } from './exchange.ts'
import type { Gateway } from './gateway.ts'
import { type Outcome, type PendingRefusal, type Refusal, refusal } from './refusals.ts'
import { admit, readPath } from './stages/admit.ts'
import { askStore } from './stages/ask-store.ts'
import { authenticate } from './stages/authenticate.ts'
import { authorize } from './stages/authorize.ts'
import { receive } from './stages/body/receive.ts'
import { validate } from './stages/body/validate-request.ts'
import { decide } from './stages/decide.ts'
import { forward } from './stages/forward.ts'
import { idempotency } from './stages/idempotency/idempotency.ts'
import { limit } from './stages/limit.ts'
import { matchDetails } from './stages/match-details.ts'
import { closeAbandoned, open } from './stages/open.ts'
import { record } from './stages/record.ts'
import { giveUp, refuse } from './stages/response/refuse.ts'
import { route } from './stages/route.ts'
import { screenAddress } from './stages/screening/screen-address.ts'
import { screenRoute } from './stages/screening/screen-route.ts'
import { takePermit } from './stages/take-permit.ts'
import { traceIdOf } from './tracing/trace.ts'

/** `undefined` continues, a refusal ends the exchange, and the pipeline waits for any other result. */
type Stage = (gateway: Gateway, exchange: Exchange) => Outcome | PendingRefusal

const STAGES: readonly Stage[] = [
  screenAddress,
  admit,
  route,
  screenRoute,
  authenticate,
  askStore,
  record,
  authorize,
  validate,
  receive,
  matchDetails,
  decide,
  idempotency,
  takePermit,
  limit,
]

/** Runs the stages. A request that will never be complete gets `refused`, unless a stage before `route` refuses it. */
export function handle(gateway: Gateway, arrival: ReceivedRequest, refused?: Refusal): Exchange {
  const exchange = open(gateway, arrival)
  if (refused === undefined) proceed(gateway, exchange, 0)
  else refuse(gateway, exchange, screenAddress(gateway, exchange) ?? admit(gateway, exchange) ?? refused)
  return exchange
}

/** Refuses a request whose head is malformed or late. */
export function handleUnreadable(gateway: Gateway, arrival: ReceivedRequest, refused: Refusal): Exchange {
  const exchange = open(gateway, arrival)
  readPath(gateway, exchange)
  // A client that has left within a head gets its audit records, but no response.
  if (!arrival.req.socket.writable) closeAbandoned(gateway, exchange)
  else refuse(gateway, exchange, refused)
  return exchange
}

function proceed(gateway: Gateway, exchange: Exchange, from: number): void {
  try {
    for (let i = from; i < STAGES.length; i++) {
      if (exchange.closed) return
      const outcome = (STAGES[i] as Stage)(gateway, exchange)
      if (outcome === undefined) continue
      if ('code' in outcome) {
        refuse(gateway, exchange, outcome)
        return
      }
      const goOn = (known: Refusal | Error | undefined): void => {
        if (known === undefined) proceed(gateway, exchange, i + 1)
        else if (known instanceof Error) fail(gateway, exchange, known)
        else refuse(gateway, exchange, known)
      }
      if ('whenKnown' in outcome) outcome.whenKnown(goOn)
      else outcome.then(goOn, (fault: unknown) => fail(gateway, exchange, fault))
      return
    }
    if (!exchange.closed) forward(gateway, exchange)
  } catch (fault) {
    fail(gateway, exchange, fault)
  }
}

/** A fault refuses the request, and never lets it through. */
function fail(gateway: Gateway, exchange: Exchange, fault: unknown): void {
  const { requestId } = exchange
  gateway.log.error({ err: fault, requestId, traceId: traceIdOf(exchange) }, 'a stage failed')
  giveUp(gateway, exchange, refusal('internal_fault', { cause: String(fault) }))
}
