import { networkOf } from '../edge/rules/network.ts'
import type { Principal } from '../principal.ts'
import type { LimitRow } from './table/limit-table.ts'

export interface Caller {
  readonly principal: Principal | undefined
  readonly address: string
}

/** `p:` with user, client, or both, or `a:` with the network. */
export function limitKey(per: LimitRow['per'], principal: Principal | undefined, address: string): string {
  if (principal === undefined || per === 'address') return `a:${networkOf(address)}`
  const { subject, client } = principal
  if (per === 'caller' || per === 'user' || subject === undefined || client === undefined)
    return principal.limitKey
  // The length keeps two pairs of names apart.
  return per === 'client' ? `p:client:${client}` : `p:client+user:${client.length}:${client}${subject}`
}
