import { isIPv6 } from 'node:net'
import type { FastifyRequest } from 'fastify'

/**
 * The address that tried a password. Behind a trusted proxy the gateway sends it in X-Real-IP. Else it is the last entry of
 * X-Forwarded-For, because clients can invent earlier ones; without that header it is the peer. IPv6 counts by /64, one
 * subscriber's network.
 */
export function originOf({ headers, ip }: Pick<FastifyRequest, 'headers' | 'ip'>): string {
  const named = String(headers['x-real-ip'] ?? headers['x-forwarded-for'] ?? ip)
  return prefixOf(named.slice(named.lastIndexOf(',') + 1).trim())
}

function prefixOf(address: string): string {
  if (!isIPv6(address)) return address
  // URLs write IPv6 in one form: hexadecimal, without leading zeros.
  const { hostname } = new URL(`http://[${address.split('%', 1)[0]}]`)
  const [front = [], back = []] = hostname
    .slice(1, -1)
    .split('::')
    .map((part) => part.split(':').filter(Boolean))
  const zeros = Array<string>(8 - front.length - back.length).fill('0')
  return `${[...front, ...zeros, ...back].slice(0, 4).join(':')}::/64`
}
