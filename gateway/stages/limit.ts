import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/limit-key.ts'
import type { PendingTake, Take } from '../limits/limiter.ts'
import { type LimitRow, rateLimit, rateLimitPolicy, refusingWindows } from '../limits/table/limit-table.ts'
import { isAllowed } from '../limits/windows/window.ts'
import { type PendingRefusal, type Refusal, refusal } from '../refusals.ts'

const LIMITS_UNAVAILABLE = refusal('limits_unavailable', { headers: ['Retry-After', '5'] })

/** Counts the request in the windows of its row. Waits for the shared store, if there is one. Writes `limitHeaders`. */
export function limit(gateway: Gateway, exchange: Exchange): Refusal | undefined | PendingRefusal {
  const { limiter } = gateway
  const pending = exchange.pendingTake
  if (pending !== undefined) return whenTaken(gateway, exchange, pending)
  const row = limiter.find(exchange.path, exchange.method)
  if (row === undefined) return undefined
  const key = limitKey(row.per, exchange.principal, exchange.address)
  if (limiter.ask !== undefined) return whenTaken(gateway, exchange, limiter.ask(row, key))
  return decide(gateway, exchange, row, limiter.take(row, key))
}

function whenTaken(
  gateway: Gateway,
  exchange: Exchange,
  pending: PendingTake,
): Refusal | undefined | PendingRefusal {
  const { row, take } = pending
  if (take !== undefined) return decide(gateway, exchange, row, take)
  return { whenKnown: (run) => pending.whenKnown(() => run(decideLate(gateway, exchange, pending))) }
}

/** Returns what `decide` throws: other requests wait for the same reply. */
function decideLate(gateway: Gateway, exchange: Exchange, pending: PendingTake): Refusal | Error | undefined {
  try {
    return decide(gateway, exchange, pending.row, pending.take as Take)
  } catch (fault) {
    return fault instanceof Error ? fault : new Error(String(fault))
  }
}

function decide(gateway: Gateway, exchange: Exchange, row: LimitRow, take: Take): Refusal | undefined {
  const isShadow = row.mode === 'shadow'
  if (take.unrecorded) {
    countDecision(gateway, row, 'unavailable')
    return isShadow ? undefined : LIMITS_UNAVAILABLE
  }
  if (take.uncounted) {
    countDecision(gateway, row, 'uncounted')
    return undefined
  }
  const passes = isAllowed(take)
  if (passes) countDecision(gateway, row, 'allowed')
  if (!isShadow)
    exchange.limitHeaders = ['RateLimit-Policy', rateLimitPolicy(row), 'RateLimit', rateLimit(row, take)]
  return passes ? undefined : refuse(gateway, row, take)
}

function countDecision(gateway: Gateway, row: LimitRow, decision: string): void {
  for (let window: LimitRow | undefined = row; window !== undefined; window = window.next)
    gateway.metrics.gateway_rate_limit_decisions_total.count(window.name, decision)
}

/** Returns nothing in shadow mode. */
function refuse(gateway: Gateway, row: LimitRow, take: Take): Refusal | undefined {
  const refusing = refusingWindows(row, take)
  const isShadow = row.mode === 'shadow'
  for (const [{ name }] of refusing)
    gateway.metrics.gateway_rate_limit_decisions_total.count(name, isShadow ? 'shadow_refused' : 'refused')
  if (isShadow) return undefined
  const bounds = refusing.map(([{ limit, window }]) => `${limit} requests in ${window}`)
  const waitSeconds = Math.max(...refusing.map(([, { resetSeconds }]) => resetSeconds))
  return refusal('limit_exceeded', {
    detail: `At most ${bounds.join(' and ')}: ${row.purpose}`,
    headers: ['Retry-After', String(waitSeconds)],
    ...(row.next && { violatedPolicies: refusing.map(([{ name }]) => name) }),
  })
}
