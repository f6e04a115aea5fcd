import type { Field } from '../http1/field.ts'

/**
 * RFC 9110 section 7.6.1, and what older peers still send. They are about one connection, never forwarded. So is the
 * secret between gateway and service: neither a client nor the service's response may pass one on.
 */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'x-gateway-secret',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Named in Connection or not, these are never taken out on a caller's word: they frame and address the message. */
const NOT_NOMINABLE: ReadonlySet<string> = new Set(['host', 'content-length'])

/** True for a header, in lower case, that belongs to one connection. */
export function isHopByHop(name: string, nominated: ReadonlySet<string> | undefined): boolean {
  return HOP_BY_HOP.has(name) || (nominated?.has(name) === true && !NOT_NOMINABLE.has(name))
}

/** The names, in lower case, that the Connection fields nominate; undefined when there are none. */
export function nominatedBy(fields: readonly Field[]): ReadonlySet<string> | undefined {
  let nominated: Set<string> | undefined
  for (const { lower, value } of fields) {
    if (lower !== 'connection' || value === 'keep-alive') continue
    for (const option of value.split(',')) {
      const nominee = option.trim().toLowerCase()
      if (nominee === '' || nominee === 'close' || nominee === 'keep-alive') continue
      nominated ??= new Set()
      nominated.add(nominee)
    }
  }
  return nominated
}

/** Headers that say who calls or from where: only a trusted proxy may set them (RFC 9700 section 4.13). */
export function isIdentityClaim(name: string): boolean {
  return (
    name === 'forwarded' ||
    name.startsWith('x-forwarded-') ||
    name.startsWith('x-auth-') ||
    name.startsWith('client-cert')
  )
}
