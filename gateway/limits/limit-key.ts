import { networkOf } from '../http/rules/network.ts'
import type { Principal } from '../principal.ts'
import type { LimitPer } from './table/limit-row.ts'

/**
 * The key that an exchange is counted under: `p:` and the principal's key, or `a:` and the address when there is no
 * principal or `per` asks for the address, which is that of its network.
 */
export function limitKey(per: LimitPer, principal: Principal | undefined, address: string): string {
  if (principal !== undefined && per !== 'address') return `p:${principal.key}`
  return `a:${networkOf(address)}`
}
