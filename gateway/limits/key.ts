import type { Principal } from '../auth/principal.ts'
import { networkOf } from '../http/network.ts'
import type { LimitPer } from './row.ts'

/**
 * The key that an exchange is counted under: `p:` and the principal's key, or `a:` and the address when there is no
 * principal or `per` asks for the address, which is that of its network.
 */
export function limitKey(per: LimitPer, principal: Principal | undefined, address: string): string {
  if (principal !== undefined && per !== 'address') return `p:${principal.key}`
  return `a:${networkOf(address)}`
}
