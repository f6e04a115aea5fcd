import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/limit-key.ts'
import { missingScope } from '../principal.ts'

/**
 * Asks the shared store to count the request, so that it decides while the audit record is being written; `limit` waits for
 * the decision. Does nothing without a shared store. Requests that may still be refused or have to be waited for are left to
 * `limit`, so that they do not count. Writes `pendingTake`.
 */
export function askStore({ limiter }: Gateway, exchange: Exchange): undefined {
  if (limiter.ask === undefined || !exchange.req.complete || exchange.route?.operations !== undefined) return
  if (missingScope(exchange.principal, exchange.route?.scopes) !== undefined) return
  const policy = limiter.find(exchange.path, exchange.method)
  if (policy === undefined) return
  exchange.pendingTake = limiter.ask(policy, limitKey(policy.row.per, exchange.principal, exchange.address))
}
