import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { isTrusted } from '../http/rules/client-address.ts'
import { networkOf } from '../http/rules/network.ts'
import { type Refusal, refusal } from '../refusals.ts'
import type { Share } from '../upstream/upstream-places.ts'

/** The last one was taken meanwhile, or the caller has all that one may have. */
const OVERLOADED = refusal('overloaded', { headers: ['Retry-After', '1'] })

/** Takes one of the places for exchanges that use the upstream, from here until the exchange is closed. Writes `share`. */
export function occupy(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const share = shareOf(gateway, exchange)
  if (!gateway.load.places.take(share)) return OVERLOADED
  exchange.share = share
  return undefined
}

/** Behind a trusted proxy of the client that it names; else of the connection, which knows it. */
function shareOf({ settings, load }: Gateway, exchange: Exchange): Share {
  const { address, peer, viaTrustedProxy, req } = exchange
  const { trustedProxies } = settings
  const isNamed =
    viaTrustedProxy && address !== peer && trustedProxies !== undefined && !isTrusted(address, trustedProxies)
  return isNamed ? load.places.shareOf(networkOf(address)) : req.holder
}
