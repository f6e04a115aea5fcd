import { isKeptOut } from '../../edge/rules/client-address.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { readPath } from '../admit.ts'

export const ADDRESS_REFUSED = refusal('address_refused')

/** Refuses addresses that the whole gateway is closed to. It comes first, so that they cost least. */
export function screenAddress(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const { addresses } = gateway.settings
  if (addresses === undefined || !isKeptOut(exchange.address, addresses)) return undefined
  readPath(gateway, exchange)
  return ADDRESS_REFUSED
}
