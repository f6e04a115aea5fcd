import { isKeptOut, isTrusted } from '../../edge/rules/client-address.ts'
import { endsHere } from '../../edge/rules/hop-by-hop.ts'
import { allowOf } from '../../edge/rules/path-table.ts'
import { allowsOrigin, preflightIn, whyNotAllowed, whyNotPermitted } from '../../edge/rules/policy/cors.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { close } from '../close.ts'
import { recordAtEnd } from '../record.ts'
import { logBrowserRefusal } from '../response/log-refusal.ts'
import { writeHead } from '../response/write-response.ts'
import { ADDRESS_REFUSED } from './screen-address.ts'

/** Applies rules of the route that need no caller. Answers preflights, and OPTIONS requests that must not go on. */
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

/** @param lines each with CR LF */
function answer(gateway: Gateway, exchange: Exchange, lines: string): Refusal | undefined {
  const refused = recordAtEnd(gateway, exchange)
  if (refused !== undefined) return refused
  // The rest of an unread body would be parsed as the next request.
  if (!exchange.req.complete || gateway.load.phase !== 'serving') exchange.res.keepAlive = false
  close(gateway, exchange, 204)
  writeHead(gateway, exchange, 204, { lines, contentLength: undefined, dated: false })
  exchange.res.end()
  return undefined
}
