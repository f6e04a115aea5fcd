import { isIPv6 } from 'node:net'
import type { FastifyRequest } from 'fastify'

/**
 * From where a password was tried: the whole chain of addresses that the gateway gives in X-Forwarded-For, which ends
 * with the one that it saw itself. Behind a trusted proxy the front of the chain is up to the client, but never its
 * end: nobody can try passwords from the origin of somebody else. IPv6 counts by /64, which is what one subscriber has.
 */
export function originOf({ headers, ip }: Pick<FastifyRequest, 'headers' | 'ip'>): string {
  const chain = headers['x-forwarded-for']
  const addresses = typeof chain === 'string' ? chain.split(',') : [ip]
  return addresses.map((address) => prefixOf(address.trim())).join(',')
}

function prefixOf(address: string): string {
  if (!isIPv6(address)) return address
  const [front = '', back] = address.split('%', 1)[0]?.split('::') ?? []
  const leading = groupsOf(front)
  const trailing = groupsOf(back ?? '')
  const zeros = back === undefined ? [] : Array<string>(8 - leading.length - trailing.length).fill('0')
  const groups = [...leading, ...zeros, ...trailing].slice(0, 4)
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`
}

/** An IPv4 address at the end stands for two groups. */
function groupsOf(text: string): string[] {
  return text === '' ? [] : text.split(':').flatMap((group) => (group.includes('.') ? ['0', '0'] : group))
}
