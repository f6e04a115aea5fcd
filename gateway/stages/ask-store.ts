import type { Exchange, ServedRoute } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/limit-key.ts'
import { missingScope } from '../principal.ts'
import { refuseAuthentication } from './authorize.ts'
import { limitOf } from './limit.ts'

/**
 * Asks the shared store to count the request while the audit record is written. In the cases below, `limit` asks
 * instead, because another stage may make the request wait or refuse it. A refused request takes no hit.
 */
export function askStore(gateway: Gateway, exchange: Exchange): undefined {
  const { limiter } = gateway
  const { req, route, principal } = exchange
  if (limiter.ask === undefined || !req.complete) return
  if (route !== undefined && isDecidedLater(route)) return
  if (missingScope(principal, route?.scopes) !== undefined) return
  if (refuseAuthentication(gateway, exchange) !== undefined) return
  const row = limitOf(gateway, exchange)
  if (row === undefined) return
  exchange.pendingTake = limiter.ask(row, limitKey(row.per, principal, exchange.address), exchange)
}

/** True when a stage between here and `takePermit` may refuse a request of the row, or give it a stored response. */
function isDecidedLater(route: ServedRoute): boolean {
  return (
    route.operations !== undefined ||
    route.signsRequests ||
    route.signsResponses ||
    route.authorizationDetails !== undefined ||
    route.decision !== undefined ||
    route.idempotency !== undefined
  )
}
