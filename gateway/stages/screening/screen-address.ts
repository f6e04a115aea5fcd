import { isKeptOut } from '../../edge/rules/client-address.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { limitKey } from '../../limits/limit-key.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { readPath } from '../admit.ts'

export const ADDRESS_REFUSED = refusal('address_refused')

/**
 * Refuses addresses that the gateway keeps out, or that exceed `addressRate`. It comes first, so that refusals cost
 * least and bad requests count. Unreadable requests do not count: they do not tell which client of a proxy sent them.
 */
export function screenAddress(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const refused = refuseAddress(gateway, exchange.address)
  if (refused !== undefined) readPath(gateway, exchange)
  return refused
}

function refuseAddress(gateway: Gateway, address: string): Refusal | undefined {
  const { settings, addressRate, steadyClock } = gateway
  if (settings.addresses !== undefined && isKeptOut(address, settings.addresses)) return ADDRESS_REFUSED
  const take = addressRate?.take(limitKey('address', undefined, address), steadyClock())
  if (take === undefined || take.allowed) return undefined
  return refusal('address_rate_exceeded', { headers: ['Retry-After', String(take.resetSeconds)] })
}
