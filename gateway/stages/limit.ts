import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/limit-key.ts'
import { type PendingTake, UNCOUNTED } from '../limits/limiter.ts'
import {
  type LimitRow,
  passes,
  rateLimit,
  rateLimitPolicy,
  refusingWindows,
  rowsOf,
} from '../limits/table/limit-table.ts'
import { isAllowed, type Take } from '../limits/windows/window.ts'
import { type PendingRefusal, type Refusal, refusal } from '../refusals.ts'

const LIMITS_UNAVAILABLE = refusal('limits_unavailable', { headers: ['Retry-After', '5'] })

export function limit(gateway: Gateway, exchange: Exchange): Refusal | undefined | PendingRefusal {
  const { limiter } = gateway
  const pending = exchange.pendingTake
  if (pending !== undefined) return whenTaken(gateway, exchange, pending)
  const row = limitOf(gateway, exchange)
  if (row === undefined) return undefined
  const key = limitKey(row.per, exchange.principal, exchange.address)
  if (limiter.ask !== undefined) return whenTaken(gateway, exchange, limiter.ask(row, key, exchange))
  return decide(gateway, exchange, row, limiter.take(row, key, exchange))
}

export function limitOf(
  { limiter, clients }: Gateway,
  { path, method, principal }: Exchange,
): LimitRow | undefined {
  const client = principal?.client
  return limiter.find(path, method, client === undefined ? undefined : clients.table.plans.get(client))
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

/** Returns an error instead of throwing it, because other requests wait for the same reply. */
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
    for (const one of rowsOf(row)) countDecision(gateway, one, 'unavailable')
    return isShadow ? undefined : LIMITS_UNAVAILABLE
  }
  const hasPassed = passes(row, take)
  countDecisions(gateway, row, take, hasPassed)
  const state = isShadow ? '' : rateLimit(row, take)
  if (state !== '') exchange.limitHeaders = ['RateLimit-Policy', rateLimitPolicy(row), 'RateLimit', state]
  return hasPassed ? undefined : refusalOf(row, take)
}

function countDecisions(gateway: Gateway, row: LimitRow, take: Take, hasPassed: boolean): void {
  if (take.uncounted) countDecision(gateway, row, 'uncounted')
  else if (!isAllowed(take)) {
    const decision = row.mode === 'shadow' ? 'shadow_refused' : 'refused'
    for (const [{ name }] of refusingWindows(row, take))
      gateway.metrics.gateway_rate_limit_decisions_total.count(name, decision)
  } else if (hasPassed) countDecision(gateway, row, 'allowed')
  if (row.beside) countDecisions(gateway, row.beside, take.beside ?? UNCOUNTED, hasPassed)
}

function countDecision(gateway: Gateway, row: LimitRow, decision: string): void {
  for (let window: LimitRow | undefined = row; window !== undefined; window = window.next)
    gateway.metrics.gateway_rate_limit_decisions_total.count(window.name, decision)
}

function refusalOf(row: LimitRow, take: Take): Refusal {
  const windows: LimitRow[] = []
  const details: string[] = []
  let waitSeconds = 1
  for (
    let [one, own]: [LimitRow | undefined, Take | undefined] = [row, take];
    one?.mode === 'enforce' && own !== undefined;
    [one, own] = [one.beside, own.beside]
  ) {
    const refusing = refusingWindows(one, own)
    if (refusing.length === 0) continue
    const bounds = refusing.map(
      ([{ limit, cost, window }]) =>
        `${Math.floor(limit / cost)} request${limit < 2 * cost ? '' : 's'} in ${window}`,
    )
    details.push(`At most ${bounds.join(' and ')}: ${one.purpose}`)
    windows.push(...refusing.map(([window]) => window))
    waitSeconds = Math.max(waitSeconds, ...refusing.map(([, { resetSeconds }]) => resetSeconds))
  }
  return refusal('limit_exceeded', {
    detail: details.join('. '),
    headers: ['Retry-After', String(waitSeconds)],
    violatedPolicies: windows.map(({ name }) => name),
  })
}
