const PLAIN = /[?&;]access_token(?:[=&;]|$)/i
const PARAMETER_NAMES = /[?&;]([^=&;]*)/g

/**
 * Whether a query has an access token among its parameters (RFC 6750 section 2.3), however the name is encoded. The
 * same text within a value, such as a link, does not count.
 *
 * @param query with its question mark
 */
export function hasTokenParameter(query: string): boolean {
  if (PLAIN.test(query)) return true
  if (!query.includes('%')) return false
  for (const [, name = ''] of query.matchAll(PARAMETER_NAMES)) {
    if (name.includes('%') && withoutOctets(name) === 'access_token') return true
  }
  return false
}

/** Decodes the octets of ASCII characters; the name has no others. */
function withoutOctets(name: string): string {
  return name
    .replace(/%([0-7][0-9a-f])/gi, (_octet, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .toLowerCase()
}
