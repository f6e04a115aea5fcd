import { bounded, requestRecord } from '../audit/audit-records.ts'
import type { Commit } from '../audit/commit/commit.ts'
import { signedRecord, signerKeyRecord } from '../audit/signature-records.ts'
import type { SignedBy } from '../auth/signatures/presented-signatures.ts'
import { timestampOf } from '../edge/syntax/timestamp.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type PendingRefusal, type Refusal, refusal } from '../refusals.ts'
import { recordedTraceId } from '../tracing/trace.ts'

/** Bounds for requests without a route, which `limit` never counts. */
const UNROUTED_PATH_CHARS = 256
const UNROUTED_USER_AGENT_CHARS = 128

export class PendingRecord implements PendingRefusal {
  readonly #commit: Commit
  readonly #exchange: Exchange

  constructor(commit: Commit, exchange: Exchange) {
    this.#commit = commit
    this.#exchange = exchange
  }

  whenKnown(run: (refused: Refusal | undefined) => void): void {
    this.#commit.whenDone((error) => {
      // Without API_REQUEST in the trail there must be no API_RESPONSE.
      if (error !== undefined) {
        this.#exchange.requestLine = undefined
        this.#exchange.recordFailed = true
      }
      this.#exchange.isAtTurnEnd = true
      run(error && unavailable(error))
      this.#exchange.isAtTurnEnd = false
    })
  }
}

/** Writes API_REQUEST and waits until it is as durable as configured. If that fails, the request is refused. */
export function record(gateway: Gateway, exchange: Exchange): Refusal | undefined | PendingRecord {
  const outcome = append(gateway, exchange)
  if (outcome instanceof Error) return unavailable(outcome)
  return outcome && new PendingRecord(outcome, exchange)
}

/** Writes API_REQUEST of an exchange that ends now; its response waits for both records. */
export function recordAtEnd(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  // The failure has already refused the request.
  if (exchange.recordFailed) return undefined
  const outcome = append(gateway, exchange)
  return outcome instanceof Error ? unavailable(outcome) : undefined
}

function append(gateway: Gateway, exchange: Exchange): Error | Commit | undefined {
  const { principal, route } = exchange
  const { userAgent, traceparent } = exchange.headers
  const mask = route === undefined ? gateway.maskUnrouted : route.maskPath
  const path = mask === undefined ? exchange.path : mask(exchange.path)
  exchange.recordedPath = path
  const line = requestRecord({
    requestId: exchange.requestId,
    timestamp: exchange.timestamp,
    method: exchange.method,
    path: route === undefined ? bounded(path, UNROUTED_PATH_CHARS) : path,
    userId: principal?.subject,
    clientId: principal?.client,
    ip: exchange.address,
    userAgent: route === undefined ? bounded(userAgent, UNROUTED_USER_AGENT_CHARS) : userAgent,
    sessionId: principal?.sessionName,
    interactionId: exchange.interactionId,
    traceId: recordedTraceId(exchange.trace, traceparent),
    gatewayId: exchange.gatewayId,
  })
  const outcome = gateway.trail.append(withSignature(gateway, line, principal?.client, exchange.signed))
  // Set before the commit: a client that disconnects meanwhile ends the exchange, which then needs API_RESPONSE.
  if (outcome instanceof Error) exchange.recordFailed = true
  else exchange.requestLine = line
  return outcome
}

/**
 * Adds a signature to a record. First writes its key once per file of the trail, so that each file is verifiable alone.
 * @param client undefined: the gateway has signed
 */
export function withSignature(
  { trail, clock }: Gateway,
  record: string,
  client: string | undefined,
  signed: SignedBy | undefined,
): string {
  if (signed === undefined) return record
  const { keyId, thumbprint } = signed.signature
  trail.settleOnce(signed.key, () =>
    signerKeyRecord({
      timestamp: timestampOf(clock()),
      clientId: client,
      keyId,
      thumbprint,
      jwk: signed.key.export({ format: 'jwk' }),
    }),
  )
  return signedRecord(record, signed.signature)
}

function unavailable(fault: Error): Refusal {
  return refusal('audit_unavailable', { headers: ['Retry-After', '5'], cause: fault.message })
}
