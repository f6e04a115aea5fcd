import { timingSafeEqual } from 'node:crypto'
import { isThumbprint } from '../keys/thumbprint.ts'
import { isJsonObject } from '../tokens/jws.ts'
import { quote } from '../tokens/quote.ts'

/** The caller must prove possession of each key whose thumbprint is set. */
export interface Binding {
  /** RFC 9449 section 6.1. */
  readonly jkt: string | undefined
  /** RFC 8705 section 3.1. */
  readonly thumbprint: string | undefined
}

const MEMBERS: ReadonlySet<string> = new Set(['jkt', 'x5t#S256'])

/** Reads the claim `cnf` (RFC 7800). A text says why the token is refused. */
export function readBinding(cnf: unknown): Binding | string | undefined {
  if (cnf === undefined) return undefined
  if (!isJsonObject(cnf)) return `cnf ${quote(cnf)} is no object`
  const members = Object.entries(cnf)
  if (members.length === 0) return 'cnf is empty'
  for (const [name, value] of members) {
    if (!MEMBERS.has(name)) return `cnf has ${quote(name)}, which cannot be confirmed`
    if (!isThumbprint(value)) return `cnf ${name} ${quote(value)} is no thumbprint`
  }
  const { jkt, 'x5t#S256': thumbprint } = cnf as { jkt?: string; 'x5t#S256'?: string }
  return Object.freeze({ jkt, thumbprint })
}

/** Compares thumbprints in constant time (RFC 8705 section 3). @param presented of the connection, never of a header */
export function isBoundToCertificate(claim: string, presented: string | undefined): boolean {
  if (!isThumbprint(claim) || !isThumbprint(presented)) return false
  return timingSafeEqual(Buffer.from(claim), Buffer.from(presented))
}
