import { networkOf } from '../http/rules/network.ts'
import type { Principal } from '../principal.ts'
import type { LimitPer } from './table/limit-row.ts'

/**
 * The key that an exchange is counted under: `p:` and the principal's key; or, without a principal or when `per` is
 * `address`, `a:` and the network of the address.
 */
export function limitKey(per: LimitPer, principal: Principal | undefined, address: string): string {
  if (principal !== undefined && per !== 'address') return `p:${principal.key}`
  return `a:${networkOf(address)}`
}
