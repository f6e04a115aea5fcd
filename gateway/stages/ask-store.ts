import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/limit-key.ts'
import { missingScope } from '../principal.ts'
import { limitOf } from './limit.ts'

/**
 * Asks the shared store to count the request while the audit record is written. In the cases below, `limit` asks
 * instead, because a stage before it may refuse the request or make it wait.
 */
export function askStore(gateway: Gateway, exchange: Exchange): undefined {
  const { limiter } = gateway
  const { req, route } = exchange
  if (limiter.ask === undefined || !req.complete || route?.operations !== undefined) return
  // A replayed response does not count.
  if (route?.idempotency !== undefined) return
  if (missingScope(exchange.principal, exchange.route?.scopes) !== undefined) return
  const row = limitOf(gateway, exchange)
  if (row === undefined) return
  exchange.pendingTake = limiter.ask(row, limitKey(row.per, exchange.principal, exchange.address), exchange)
}
