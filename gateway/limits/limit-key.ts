import { networkOf } from '../http/rules/network.ts'
import type { Principal } from '../principal.ts'
import type { LimitRow } from './table/limit-row.ts'

/**
 * The key that an exchange is counted under: that of the principal, which begins with `p:`; or, without a principal or when `per` is
 * `address`, `a:` and the network of the address.
 */
export function limitKey(per: LimitRow['per'], principal: Principal | undefined, address: string): string {
  if (principal !== undefined && per !== 'address') return principal.limitKey
  return `a:${networkOf(address)}`
}
