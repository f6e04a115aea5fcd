import { isIPv6 } from 'node:net'
import type { FastifyRequest } from 'fastify'

/**
 * Where a password was tried from: the client that the gateway names. Behind a trusted proxy that is X-Real-IP; without one it
 * is the last entry of X-Forwarded-For. A client could invent the entries before it, a new one for each attempt. IPv6 counts
 * by /64, the network of one subscriber.
 */
export function originOf({ headers, ip }: Pick<FastifyRequest, 'headers' | 'ip'>): string {
  const named = String(headers['x-real-ip'] ?? headers['x-forwarded-for'] ?? ip)
  return prefixOf(named.slice(named.lastIndexOf(',') + 1).trim())
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
