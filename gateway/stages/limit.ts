import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/limit-key.ts'
import { rateLimit } from '../limits/table/rate-limit-fields.ts'
import { type Refusal, refusal } from '../refusals.ts'

const LIMITS_UNAVAILABLE = refusal('limits_unavailable', { headers: ['Retry-After', '5'] })

/** Counts the request against the matching row of the limit table. Writes `limitHeaders`. */
export function limit(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const policy = gateway.limiter.find(exchange.path, exchange.method)
  if (policy === undefined) return undefined
  const { row } = policy
  const take = gateway.limiter.take(row, limitKey(row.per, exchange.principal, exchange.address))
  if (take.unrecorded) {
    gateway.metrics.limitDecision(row.name, 'unavailable')
    return row.mode === 'shadow' ? undefined : LIMITS_UNAVAILABLE
  }
  if (row.mode === 'shadow') {
    gateway.metrics.limitDecision(row.name, take.allowed ? 'allowed' : 'shadow_refused')
    return undefined
  }
  gateway.metrics.limitDecision(row.name, take.allowed ? 'allowed' : 'refused')
  exchange.limitHeaders = ['RateLimit-Policy', policy.policyField, 'RateLimit', rateLimit(row, take)]
  if (take.allowed) return undefined
  return refusal('limit_exceeded', {
    detail: `At most ${row.limit} requests in ${row.window}: ${row.purpose}`,
    headers: ['Retry-After', String(take.resetSeconds)],
  })
}
