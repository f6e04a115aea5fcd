import { isTrusted } from '../edge/rules/client-address.ts'
import { networkOf } from '../edge/rules/network.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Refusal, refusal } from '../refusals.ts'
import type { Share } from '../upstream/upstream-permits.ts'

/** The last permit is taken, or the caller has its fair share already. */
const OVERLOADED = refusal('overloaded', { headers: ['Retry-After', '1'] })

const GROUP_OVERLOADED = refusal('overloaded', {
  headers: ['Retry-After', '1'],
  cause: 'maxInFlight of the upstream group',
})

/** Takes an upstream permit, and one of the group if it has a bound, until the exchange is closed. Writes `share`. */
export function occupy(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const share = shareOf(gateway, exchange)
  if (!gateway.load.permits.take(share)) return OVERLOADED
  const group = exchange.route?.permits
  if (group !== undefined && !group.take(share)) {
    gateway.load.permits.release(share)
    return GROUP_OVERLOADED
  }
  exchange.share = share
  return undefined
}

/** Gives back what `occupy` took. */
export function vacate({ load }: Gateway, { route }: Exchange, share: Share): void {
  load.permits.release(share)
  route?.permits?.release(share)
}

/** Counted for the client that a trusted proxy names, else for the address of the connection. */
function shareOf({ settings, load }: Gateway, exchange: Exchange): Share {
  const { address, peer, viaTrustedProxy, req } = exchange
  const { trustedProxies } = settings
  const isNamed =
    viaTrustedProxy && address !== peer && trustedProxies !== undefined && !isTrusted(address, trustedProxies)
  return isNamed ? load.permits.shareOf(networkOf(address)) : req.network
}
