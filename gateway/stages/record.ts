import type { Commit } from '../audit/commit.ts'
import { requestRecord } from '../audit/records.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Refusal, refusal } from '../refusals.ts'

/** Exchanges that wait for one commit, and what becomes of all of them. */
interface Group {
  readonly exchanges: Exchange[]
  readonly outcome: Promise<Refusal | undefined>
}

const GROUPS = new WeakMap<Commit, Group>()

/**
 * Hands API_REQUEST to the audit trail; what cannot be recorded is not done. A user is named by `userId`, a machine
 * that acts for itself by `clientId`. Writes `requestLine`. Waits only where the trail has to be committed (`synced`).
 */
export function record(
  gateway: Gateway,
  exchange: Exchange,
): Refusal | undefined | Promise<Refusal | undefined> {
  const noted = note(gateway, exchange)
  return noted instanceof Error ? unavailable(noted) : noted && committed(noted, exchange)
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
  const { principal } = exchange
  const line = requestRecord({
    requestId: exchange.requestId,
    timestamp: exchange.timestamp,
    method: exchange.method,
    path: exchange.path,
    userId: principal?.subject,
    clientId: principal !== undefined && principal.subject === undefined ? principal.client : undefined,
    ip: exchange.address,
    userAgent: exchange.headers.userAgent,
  })
  const outcome = gateway.trail.append(line)
  // Also of one that is not committed yet: a client that goes away meanwhile ends the exchange, and its pair.
  if (!(outcome instanceof Error)) exchange.requestLine = line
  return outcome
}

function committed(commit: Commit, exchange: Exchange): Promise<Refusal | undefined> {
  const group = GROUPS.get(commit) ?? groupOf(commit)
  group.exchanges.push(exchange)
  return group.outcome
}

function groupOf(commit: Commit): Group {
  const { promise: outcome, resolve } = Promise.withResolvers<Refusal | undefined>()
  const group: Group = { exchanges: [], outcome }
  GROUPS.set(commit, group)
  commit.whenDone((error) => {
    // Their records are not in the trail, so no response belongs there.
    if (error !== undefined) for (const exchange of group.exchanges) exchange.requestLine = undefined
    resolve(error && unavailable(error))
  })
  return group
}

function unavailable(fault: Error): Refusal {
  return refusal('audit_unavailable', { headers: ['Retry-After', '5'], cause: fault.message })
}
