import { type BlockList, isIP } from 'node:net'
import { withoutSpaceAround } from '../syntax/characters.ts'

interface Downstream {
  readonly address: string
  readonly peer: string
  /** True when the peer is a trusted proxy: its forwarded headers are kept. */
  readonly viaTrustedProxy: boolean
}

/**
 * The address that a request comes from. Behind a trusted proxy it is the rightmost entry of X-Forwarded-For
 * (else Forwarded) that is no trusted proxy: anyone could have written the entries before it.
 * @param peer without IPv6 mapping
 */
export function downstreamOf(
  peer: string,
  { forwardedFor, forwarded }: { forwardedFor?: string | undefined; forwarded?: string | undefined },
  trustedProxies: BlockList | undefined,
): Downstream {
  if (trustedProxies === undefined || !isTrusted(peer, trustedProxies)) {
    return { address: peer, peer, viaTrustedProxy: false }
  }
  let address = peer
  const entries = forwardedFor?.split(',') ?? (forwarded === undefined ? [] : forwardedNodes(forwarded))
  for (let i = entries.length - 1; i >= 0; i--) {
    const entry = withoutPort(withoutSpaceAround(entries[i] as string))
    if (isIP(entry) === 0) break
    address = withoutMapping(entry)
    if (!isTrusted(address, trustedProxies)) break
  }
  return { address, peer, viaTrustedProxy: true }
}

export function isTrusted(address: string, proxies: BlockList): boolean {
  const family = isIP(address)
  return family !== 0 && proxies.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

/** Turns `::ffff:192.0.2.1` into `192.0.2.1`. */
export function withoutMapping(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}

function withoutPort(entry: string): string {
  if (entry.startsWith('[')) return entry.slice(1, Math.max(1, entry.indexOf(']')))
  return entry.includes('.') && entry.includes(':') && !entry.startsWith('::')
    ? entry.slice(0, entry.indexOf(':'))
    : entry
}

/** A parameter of an element of Forwarded, perhaps empty, and its end. */
const PARAMETER = /[ \t]*(?:([^\s=;,"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))[ \t]*)?(;|$)/y

/**
 * The `for` of each element of Forwarded (RFC 7239 section 4); empty where absent or malformed. Reads from the
 * right, so that a client's quotation mark cannot hide what a proxy added behind it.
 */
function forwardedNodes(value: string): readonly string[] {
  const nodes: string[] = []
  let isQuoted = false
  let end = value.length
  for (let at = end - 1; at >= 0; at--) {
    if (value[at] === '"' && !isEscaped(value, at)) isQuoted = !isQuoted
    else if (value[at] === ',' && !isQuoted) {
      nodes.push(nodeOf(value.slice(at + 1, end)))
      end = at
    }
  }
  nodes.push(nodeOf(value.slice(0, end)))
  return nodes.reverse()
}

function isEscaped(value: string, at: number): boolean {
  let from = at
  while (value[from - 1] === '\\') from--
  return (at - from) % 2 === 1
}

function nodeOf(element: string): string {
  let node = ''
  PARAMETER.lastIndex = 0
  for (;;) {
    const found = PARAMETER.exec(element)
    if (found === null) return ''
    const [, name, quoted, token, end] = found
    if (name?.toLowerCase() === 'for') node = quoted?.replaceAll(/\\(.)/g, '$1') ?? token ?? ''
    if (end === '') return node
  }
}

export interface AddressList {
  /** Undefined: everybody. */
  readonly allow: BlockList | undefined
  readonly deny: BlockList | undefined
}

/** An address on both lists is kept out. Text that is no IP address is on no list. */
export function isKeptOut(address: string, { allow, deny }: AddressList): boolean {
  if (deny !== undefined && isTrusted(address, deny)) return true
  return allow !== undefined && !isTrusted(address, allow)
}
