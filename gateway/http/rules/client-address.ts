import { type BlockList, isIP } from 'node:net'
import { withoutSpaceAround } from '../syntax/characters.ts'

/** Where a request comes from. */
export interface Downstream {
  /** Textual IP address. */
  readonly address: string
  /** The address of the connection itself. */
  readonly peer: string
  /** The peer is a trusted proxy, so its forwarded headers are kept. */
  readonly viaTrustedProxy: boolean
}

/**
 * The address a request comes from: the peer's, or, when the peer is a trusted proxy, the rightmost entry of
 * X-Forwarded-For that is not itself one. Entries left of it could have been written by anyone.
 *
 * @param peer without mapping
 */
export function downstreamOf(
  peer: string,
  forwardedFor: string | undefined,
  trustedProxies: BlockList | undefined,
): Downstream {
  if (trustedProxies === undefined || !isTrusted(peer, trustedProxies)) {
    return { address: peer, peer, viaTrustedProxy: false }
  }
  let address = peer
  const entries = forwardedFor?.split(',') ?? []
  for (let i = entries.length - 1; i >= 0; i--) {
    const entry = withoutPort(withoutSpaceAround(entries[i] as string))
    if (isIP(entry) === 0) break
    address = withoutMapping(entry)
    if (!isTrusted(address, trustedProxies)) break
  }
  return { address: address, peer, viaTrustedProxy: true }
}

/** Whether an address is on a list of the operator's; false for anything but an IP address. */
export function isTrusted(address: string, proxies: BlockList): boolean {
  const family = isIP(address)
  return family !== 0 && proxies.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

/** `::ffff:192.0.2.1`, as a dual-stack socket shows an IPv4 peer. */
export function withoutMapping(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}

function withoutPort(entry: string): string {
  if (entry.startsWith('[')) return entry.slice(1, Math.max(1, entry.indexOf(']')))
  return entry.includes('.') && entry.includes(':') && !entry.startsWith('::')
    ? entry.slice(0, entry.indexOf(':'))
    : entry
}
