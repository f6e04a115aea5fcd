import { isIPv6 } from 'node:net'
import type { FastifyRequest } from 'fastify'

/**
 * From where a password was tried: the client that the gateway names. Behind a trusted proxy it does so in X-Real-IP;
 * of X-Forwarded-For only the end is its own word, and all of it without a proxy. What stands before that is up to the
 * client, who would be another at each try. IPv6 counts by /64, which is what one subscriber has.
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
