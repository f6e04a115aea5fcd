import { isThumbprint } from '../keys/thumbprint.ts'
import { quote } from '../tokens/quote.ts'

/** What a token is bound to; at least one of the two. Whoever presents it must prove that it holds all of them. */
export interface Binding {
  /** Thumbprint of the DPoP key (RFC 9449 section 6.1). */
  readonly jkt: string | undefined
  /** Thumbprint of the TLS client certificate (RFC 8705 section 3.1). */
  readonly thumbprint: string | undefined
}

const MEMBERS: ReadonlySet<string> = new Set(['jkt', 'x5t#S256'])

/**
 * Reads the claim `cnf` (RFC 7800). A confirmation that is not known here cannot be asked for, and a token that asks
 * for one must not be accepted without it: any other member is a fault, as is `cnf` without any.
 *
 * @returns undefined when there is no such claim, or in words what is wrong with it
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
