import { timingSafeEqual } from 'node:crypto'
import { isThumbprint } from '../keys/thumbprint.ts'
import { quote } from '../tokens/quote.ts'

/** What a token is bound to: a key, a certificate or both. The caller must prove possession of each. */
export interface Binding {
  /** Thumbprint of the DPoP key (RFC 9449 section 6.1). */
  readonly jkt: string | undefined
  /** Thumbprint of the TLS client certificate (RFC 8705 section 3.1). */
  readonly thumbprint: string | undefined
}

const MEMBERS: ReadonlySet<string> = new Set(['jkt', 'x5t#S256'])

/**
 * Parses the claim `cnf` (RFC 7800). An unknown confirmation method cannot be checked, so a token with one is refused, and
 * so is an empty `cnf`.
 *
 * @returns undefined without the claim; why it is refused
 */
export function readBinding(cnf: unknown): Binding | string | undefined {
  if (cnf === undefined) return undefined
  if (typeof cnf !== 'object' || cnf === null || Array.isArray(cnf)) return `cnf ${quote(cnf)} is no object`
  const members = Object.entries(cnf)
  if (members.length === 0) return 'cnf confirms nothing'
  for (const [name, value] of members) {
    if (!MEMBERS.has(name)) return `cnf has ${quote(name)}, which cannot be confirmed`
    if (!isThumbprint(value)) return `cnf ${name} ${quote(value)} is no thumbprint`
  }
  const { jkt, 'x5t#S256': thumbprint } = cnf as { jkt?: string; 'x5t#S256'?: string }
  return Object.freeze({ jkt, thumbprint })
}

/**
 * Whether a token that names `claim` (`cnf["x5t#S256"]`) was presented over the connection of its certificate
 * (RFC 8705 section 3). Both are SHA-256 thumbprints in base64url, compared in constant time. `presented` must come from
 * this TLS connection, never from a header; undefined (no certificate) does not match.
 */
export function isBoundToCertificate(claim: string, presented: string | undefined): boolean {
  if (!isThumbprint(claim) || !isThumbprint(presented)) return false
  return timingSafeEqual(Buffer.from(claim), Buffer.from(presented))
}
