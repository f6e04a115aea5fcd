import { isIPv6 } from 'node:net'
import type { Principal } from '../auth/principal.ts'
import type { LimitPer } from './row.ts'

/**
 * The key that an exchange is counted under: `p:` and the principal's key, or `a:` and the address when there is no
 * principal or `per` asks for the address. IPv4 counts by address, also when mapped into IPv6 (RFC 4291 section
 * 2.5.5.2); IPv6 counts by its /64, the smallest network that one subscriber is given (RFC 6177), because whoever has
 * one can send from any address of it. An address that is none is taken as it is.
 */
export function limitKey(per: LimitPer, principal: Principal | undefined, address: string): string {
  if (principal !== undefined && per !== 'address') return `p:${principal.key}`
  return address.includes(':') ? `a:${foldedAddress(address)}` : `a:${address}`
}

/** `203.0.113.9` for any form of ::ffff:203.0.113.9, `2001:db8:0:1::/64` for any form of an address in it. */
function foldedAddress(address: string): string {
  const zone = address.indexOf('%')
  const bare = zone === -1 ? address : address.slice(0, zone)
  if (!isIPv6(bare)) return address
  const groups = groupsOf(bare)
  const mapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
  if (mapped) return `${dotted(groups[6])}.${dotted(groups[7])}`
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`
}

/** The eight groups of a valid IPv6 address without a zone. */
function groupsOf(address: string): number[] {
  const [front = '', back] = address.split('::')
  const head = numbersOf(front)
  if (back === undefined) return head
  const tail = numbersOf(back)
  return [...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail]
}

function numbersOf(part: string): number[] {
  if (part === '') return []
  return part.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)]
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number)
    return [a * 256 + b, c * 256 + d]
  })
}

function dotted(group = 0): string {
  return `${group >> 8}.${group & 0xff}`
}
