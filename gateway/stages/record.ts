import { bounded, requestRecord } from '../audit/audit-records.ts'
import type { Commit } from '../audit/commit/commit.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Refusal, refusal } from '../refusals.ts'

/** A request that no route serves is recorded in few bytes: anybody may send any number of them, without a limit. */
const UNROUTED_PATH_CHARS = 256
const UNROUTED_USER_AGENT_CHARS = 128

/** A record that has been handed over, of which it is not known yet whether it is safe. */
export class PendingRecord {
  readonly #commit: Commit
  readonly #exchange: Exchange

  constructor(commit: Commit, exchange: Exchange) {
    this.#commit = commit
    this.#exchange = exchange
  }

  /** @param run called once, with a refusal when the record is not in the trail. */
  whenKnown(run: (refused: Refusal | undefined) => void): void {
    this.#commit.whenDone((error) => {
      // Its record is not in the trail, so no response belongs there.
      if (error !== undefined) this.#exchange.requestLine = undefined
      run(error && unavailable(error))
    })
  }
}

/**
 * Hands API_REQUEST to the audit trail; what cannot be recorded is not done. A user is named by `userId`, a machine
 * that acts for itself by `clientId`. Writes `requestLine`. Waits until the record is as safe as the trail promises.
 */
export function record(gateway: Gateway, exchange: Exchange): Refusal | undefined | PendingRecord {
  const noted = note(gateway, exchange)
  if (noted instanceof Error) return unavailable(noted)
  return noted && new PendingRecord(noted, exchange)
}

/**
 * The same for a request that is not going on: nothing has to wait before its response is recorded too, and its answer
 * goes out after that.
 */
export function recordAtEnd(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const noted = note(gateway, exchange)
  return noted instanceof Error ? unavailable(noted) : undefined
}

function note(gateway: Gateway, exchange: Exchange): Error | Commit | undefined {
  const { principal, route } = exchange
  const { userAgent } = exchange.headers
  const line = requestRecord({
    requestId: exchange.requestId,
    timestamp: exchange.timestamp,
    method: exchange.method,
    path: route === undefined ? bounded(exchange.path, UNROUTED_PATH_CHARS) : exchange.path,
    userId: principal?.subject,
    clientId: principal !== undefined && principal.subject === undefined ? principal.client : undefined,
    ip: exchange.address,
    userAgent: route === undefined ? bounded(userAgent, UNROUTED_USER_AGENT_CHARS) : userAgent,
    gatewayId: exchange.gatewayId,
  })
  const outcome = gateway.trail.append(line)
  // Also of one that is not committed yet: a client that goes away meanwhile ends the exchange, and its pair.
  if (!(outcome instanceof Error)) exchange.requestLine = line
  return outcome
}

function unavailable(fault: Error): Refusal {
  return refusal('audit_unavailable', { headers: ['Retry-After', '5'], cause: fault.message })
}
