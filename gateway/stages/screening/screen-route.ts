import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { isTrusted } from '../../http/rules/client-address.ts'
import { allowOf } from '../../http/rules/path-table.ts'
import { isKeptOut } from '../../http/rules/policy/address-list.ts'
import { allowsOrigin, preflightIn, whyNotAllowed, whyNotPermitted } from '../../http/rules/policy/cors.ts'
import { endsHere } from '../../http/rules/policy/max-forwards.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { answer } from '../response/answer.ts'
import { logBrowserRefusal } from '../response/log-refusal.ts'
import { ADDRESS_REFUSED } from './screen-address.ts'

/**
 * What the route decides before anybody is authenticated: whom it is closed to, what pages of other origins may do, and
 * whether it is closed to all. A preflight is answered here, because browsers send it without credentials, and so is an OPTIONS
 * request that may not be forwarded: it learns what a 405 would tell it.
 */
export function screenRoute(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const refused = screen(gateway, exchange)
  if (refused !== undefined || exchange.closed || exchange.method !== 'OPTIONS') return refused
  if (!endsHere(exchange.req.fields)) return undefined
  return answer(gateway, exchange, `Allow: ${allowOf(gateway.routes.find(exchange.path))}\r\n`)
}

function screen(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const screening = exchange.route?.screening
  if (screening === undefined) return undefined
  const { addresses, cors, maintenance } = screening
  const { address, method, req } = exchange
  if (addresses !== undefined && isKeptOut(address, addresses)) return ADDRESS_REFUSED
  const preflight = cors && preflightIn(method, req.fields)
  if (cors !== undefined && preflight !== undefined) {
    if (!allowsOrigin(cors, preflight.origin))
      return refusal('origin_not_allowed', { cause: whyNotAllowed(cors, preflight.origin) })
    const cause = whyNotPermitted(cors, preflight, req.fields)
    if (cause !== undefined) logBrowserRefusal(gateway, exchange, cause)
    return answer(gateway, exchange, cors.preflightLines)
  }
  if (maintenance === undefined) return undefined
  const { refusal: closed, passes } = maintenance
  return passes !== undefined && isTrusted(address, passes) ? undefined : closed
}
