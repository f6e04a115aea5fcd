import { timingSafeEqual } from 'node:crypto'
import { isThumbprint } from '../keys/thumbprint.ts'

/**
 * Whether a token that names `claim` (`cnf["x5t#S256"]`) was presented over the connection of its certificate
 * (RFC 8705 section 3). Both are SHA-256 thumbprints in base64url, compared in constant time. `presented` must come from
 * this TLS connection, never from a header; undefined (no certificate) does not match.
 */
export function isBoundToCertificate(claim: string, presented: string | undefined): boolean {
  if (!isThumbprint(claim) || !isThumbprint(presented)) return false
  return timingSafeEqual(Buffer.from(claim), Buffer.from(presented))
}
