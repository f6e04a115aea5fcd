import { isIPv4, isIPv6 } from 'node:net'

/**
 * The network that a client counts as: its IPv4 address, also when mapped into IPv6, or the /64 of its IPv6
 * address, which one subscriber has alone (RFC 6177). Other text stays as it is.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  // A dual-stack listener shows IPv4 clients like this. The code below would do too, but takes seven times as long.
  if (address.startsWith('::ffff:') && isIPv4(address.slice(7))) return address.slice(7)
  const zone = address.indexOf('%')
  const bare = zone === -1 ? address : address.slice(0, zone)
  if (!isIPv6(bare)) return address
  const [a, b, c, d, e, f, g, h] = groupsOf(bare)
  if (f === 0xffff && !(a || b || c || d || e)) return `${dotted(g)}.${dotted(h)}`
  return `${hex(a)}:${hex(b)}:${hex(c)}:${hex(d)}::/64`
}

/** The host of a URL by which this machine reaches what listens at `host`. */
export function reachable(host: string): string {
  const address = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return isIPv6(address) ? `[${address}]` : address
}

function groupsOf(address: string): number[] {
  const gap = address.indexOf('::')
  if (gap === -1) return numbersOf(address)
  const groups = numbersOf(address.slice(0, gap))
  const tail = numbersOf(address.slice(gap + 2))
  while (groups.length + tail.length < 8) groups.push(0)
  groups.push(...tail)
  return groups
}

function numbersOf(part: string): number[] {
  const numbers: number[] = []
  if (part === '') return numbers
  for (const group of part.split(':')) {
    if (group.includes('.')) {
      const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number)
      numbers.push(a * 256 + b, c * 256 + d)
    } else numbers.push(Number.parseInt(group, 16))
  }
  return numbers
}

function dotted(group = 0): string {
  return `${group >> 8}.${group & 0xff}`
}

function hex(group = 0): string {
  return group.toString(16)
}
