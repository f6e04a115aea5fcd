import { isTrusted } from '../edge/rules/client-address.ts'
import { networkOf } from '../edge/rules/network.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Refusal, refusal } from '../refusals.ts'

const OVERLOADED = refusal('overloaded', { headers: ['Retry-After', '1'] })
const GROUP_OVERLOADED = refusal('overloaded', {
  headers: ['Retry-After', '1'],
  cause: 'maxInFlight of the upstream group',
})

export function takePermit(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const { network } = exchange.req
  const named = namedNetwork(gateway, exchange)
  const holder = named ?? network.name
  const isProxy = named === undefined && network.isProxy
  if (!gateway.load.permits.take(holder, isProxy)) return OVERLOADED
  if (exchange.route?.permits?.take(holder, isProxy) === false) {
    gateway.load.permits.release(holder)
    return GROUP_OVERLOADED
  }
  exchange.permitHolder = holder
  return undefined
}

export function releasePermit({ load }: Gateway, { route }: Exchange, holder: string): void {
  load.permits.release(holder)
  route?.permits?.release(holder)
}

/** Undefined when no trusted proxy names the client. */
function namedNetwork(
  { settings }: Gateway,
  { address, peer, viaTrustedProxy }: Exchange,
): string | undefined {
  const { trustedProxies } = settings
  const isNamed =
    viaTrustedProxy && address !== peer && trustedProxies !== undefined && !isTrusted(address, trustedProxies)
  return isNamed ? networkOf(address) : undefined
}
