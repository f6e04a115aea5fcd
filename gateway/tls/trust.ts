import type { X509Certificate } from 'node:crypto'
import type { RevocationList } from './revocation-list.ts'

/** Whose client certificates are taken. Immutable; a reload makes another. */
export interface ClientTrust {
  readonly authorities: readonly X509Certificate[]
  readonly lists: readonly RevocationList[]
}

/** A client's certificate and those it sent along to lead to an authority. */
export interface SentChain {
  readonly leaf: X509Certificate
  readonly intermediates: readonly X509Certificate[]
}

/**
 * Why a certificate that a handshake has taken is not trusted now, or undefined when it still is: the authorities and
 * the lists may have been reloaded since, and a connection may live longer than its certificate. Looks for a path of
 * valid, unrevoked certificates to an authority that signs itself. What else RFC 5280 asks of a path (constraints,
 * usages, policies) does not change with time and is the handshake's part.
 */
export function distrustOf(chain: SentChain, trust: ClientTrust, nowMs: number): string | undefined {
  return new PathSearch(chain, trust, nowMs).faultOf(chain.leaf)
}

class PathSearch {
  readonly #pool: readonly X509Certificate[]
  readonly #authorities: ReadonlySet<X509Certificate>
  readonly #lists: readonly RevocationList[]
  readonly #nowMs: number
  readonly #seen = new Set<X509Certificate>()

  constructor(chain: SentChain, trust: ClientTrust, nowMs: number) {
    this.#pool = [...trust.authorities, ...chain.intermediates]
    this.#authorities = new Set(trust.authorities)
    this.#lists = trust.lists
    this.#nowMs = nowMs
  }

  faultOf(certificate: X509Certificate): string | undefined {
    if (this.#nowMs > certificate.validToDate.getTime()) return 'it has expired'
    if (this.#authorities.has(certificate) && isIssuer(certificate, certificate)) return undefined
    let fault: string | undefined
    for (const issuer of this.#pool) {
      if (this.#seen.has(issuer) || !isIssuer(issuer, certificate)) continue
      this.#seen.add(issuer)
      const found = this.#isRevoked(certificate, issuer) ? 'it was revoked' : this.faultOf(issuer)
      if (found === undefined) return undefined
      fault ??= found
    }
    return fault ?? 'no authority in force has issued it'
  }

  #isRevoked(certificate: X509Certificate, issuer: X509Certificate): boolean {
    return this.#lists.some(
      // Two authorities may give the same number; the signature is only looked at when one is found.
      (list) => list.serials.has(certificate.serialNumber) && list.isSignedBy(issuer.publicKey) !== false,
    )
  }
}

/** By name and by signature. */
export function isIssuer(issuer: X509Certificate, certificate: X509Certificate): boolean {
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
}
