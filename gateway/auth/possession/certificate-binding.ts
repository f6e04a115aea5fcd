import { timingSafeEqual } from 'node:crypto'
import { isThumbprint } from '../keys/thumbprint.ts'

/**
 * Whether a token that names `claim` (`cnf["x5t#S256"]`) was presented over the connection of its certificate
 * (RFC 8705 section 3). Both are SHA-256 thumbprints in base64url. `presented` is of the certificate that this very TLS
 * connection proved, never out of a header; undefined when there is none, which is no match. The work does not depend
 * on where the two differ.
 */
export function isBoundToCertificate(claim: string, presented: string | undefined): boolean {
  if (!isThumbprint(claim) || !isThumbprint(presented)) return false
  return timingSafeEqual(Buffer.from(claim), Buffer.from(presented))
}
