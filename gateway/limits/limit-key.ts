import { networkOf } from '../edge/rules/network.ts'
import type { Principal } from '../principal.ts'
import type { LimitRow } from './table/limit-row.ts'

/**
 * The key that an exchange is counted under. With a principal it begins with `p:`: it names the user, the client, or for `client+user`
 * both, and where one of them is missing, the other. Without a principal or when `per` is `address`, it is `a:` and the network of the
 * address.
 */
export function limitKey(per: LimitRow['per'], principal: Principal | undefined, address: string): string {
  if (principal === undefined || per === 'address') return `a:${networkOf(address)}`
  const { subject, client } = principal
  if (per === 'caller' || per === 'user' || subject === undefined || client === undefined)
    return principal.limitKey
  // The length tells where the client's name ends, so that no other two names make the same key.
  return per === 'client' ? `p:client:${client}` : `p:client+user:${client.length}:${client}${subject}`
}
