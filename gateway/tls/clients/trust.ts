import type { X509Certificate } from 'node:crypto'
import type { RevocationList } from './revocation-list.ts'

/** Whose client certificates are taken. Immutable; a reload makes another. */
export interface ClientTrust {
  readonly authorities: readonly X509Certificate[]
  readonly lists: readonly RevocationList[]
  /** The authorities are of more than one house: which one has issued a certificate counts. */
  readonly several: boolean
}

/** A client's certificate and those it sent along to lead to an authority. */
export interface SentChain {
  readonly leaf: X509Certificate
  readonly intermediates: readonly X509Certificate[]
}

/** Why a certificate is trusted. Immutable. */
export interface TrustedPath {
  /** The authorities in force that vouch for it, the nearest first. */
  readonly authorities: readonly X509Certificate[]
  /** After this time it must be looked for again: a certificate of it ends, or a revocation list. */
  readonly goodUntilMs: number
}

/**
 * Looks for a path of valid, unrevoked certificates to an authority that signs itself: the authorities and the lists may
 * have been reloaded since the handshake that took the certificate, and a connection may live longer than any of them.
 * What else RFC 5280 asks of a path (constraints, usages, policies) does not change with time and is the handshake's part.
 *
 * @returns why there is none now, in words for the log
 */
export function trustedPath(
  chain: SentChain,
  trust: Pick<ClientTrust, 'authorities' | 'lists'>,
  nowMs: number,
): TrustedPath | string {
  return new PathSearch(chain, trust, nowMs).pathOf(chain.leaf)
}

/** The one fault that passes: a new list makes the certificate good again. */
export const LIST_OUT_OF_DATE = 'the revocation list of its issuer is out of date'

class PathSearch {
  readonly #leaf: X509Certificate
  readonly #pool: readonly X509Certificate[]
  readonly #authorities: ReadonlySet<X509Certificate>
  readonly #lists: readonly RevocationList[]
  readonly #nowMs: number
  readonly #seen = new Set<X509Certificate>()

  constructor(chain: SentChain, trust: Pick<ClientTrust, 'authorities' | 'lists'>, nowMs: number) {
    this.#leaf = chain.leaf
    this.#pool = [...trust.authorities, ...chain.intermediates]
    this.#authorities = new Set(trust.authorities)
    this.#lists = trust.lists
    this.#nowMs = nowMs
  }

  pathOf(certificate: X509Certificate): TrustedPath | string {
    const notAfterMs = certificate.validToDate.getTime()
    if (this.#nowMs > notAfterMs)
      return certificate === this.#leaf ? 'it has expired' : 'the certificate of its issuer has expired'
    const own = this.#authorities.has(certificate) ? [certificate] : []
    if (own.length > 0 && isIssuer(certificate, certificate))
      return { authorities: own, goodUntilMs: notAfterMs }
    let fault: string | undefined
    for (const issuer of this.#pool) {
      if (this.#seen.has(issuer) || !isIssuer(issuer, certificate)) continue
      this.#seen.add(issuer)
      const path = this.#pathThrough(issuer, certificate)
      if (typeof path !== 'string') {
        const goodUntilMs = Math.min(notAfterMs, path.goodUntilMs)
        return { authorities: [...own, ...path.authorities], goodUntilMs }
      }
      fault ??= path
    }
    return fault ?? 'no authority in force has issued it'
  }

  #pathThrough(issuer: X509Certificate, certificate: X509Certificate): TrustedPath | string {
    const own = this.#lists.filter((list) => isSignedBy(list, issuer) !== false)
    if (own.some(({ serials }) => serials.has(certificate.serialNumber))) return 'it was revoked'
    const path = this.pathOf(issuer)
    if (typeof path === 'string') return path
    // As OpenSSL has it: with any list at all, each issuer needs one that is not out of date.
    if (own.length === 0 && this.#lists.length > 0) return 'its issuer has no revocation list here'
    const goodUntilMs = listsGoodUntilMs(own, issuer)
    if (this.#nowMs > goodUntilMs) return LIST_OUT_OF_DATE
    return { ...path, goodUntilMs: Math.min(path.goodUntilMs, goodUntilMs) }
  }
}

const NEVER = Number.POSITIVE_INFINITY

/** Those that are proved to be the issuer's count; where there is none, those of an algorithm that is not known here. */
function listsGoodUntilMs(lists: readonly RevocationList[], issuer: X509Certificate): number {
  if (lists.length === 0) return NEVER
  const proved = lists.filter((list) => isSignedBy(list, issuer) === true)
  const counting = proved.length > 0 ? proved : lists
  return Math.max(...counting.map(({ nextUpdateMs }) => nextUpdateMs ?? NEVER))
}

/** Each list may be long: its signature is looked at once for each issuer, not for each connection. */
const MAX_VERDICTS = 256
const VERDICTS = new WeakMap<RevocationList, Map<string, boolean | undefined>>()

function isSignedBy(list: RevocationList, issuer: X509Certificate): boolean | undefined {
  let verdicts = VERDICTS.get(list)
  if (verdicts === undefined) {
    verdicts = new Map()
    VERDICTS.set(list, verdicts)
  }
  const { fingerprint256 } = issuer
  if (!verdicts.has(fingerprint256)) {
    if (verdicts.size >= MAX_VERDICTS) verdicts.clear()
    verdicts.set(fingerprint256, list.isSignedBy(issuer.publicKey))
  }
  return verdicts.get(fingerprint256)
}

/** By name and by signature. */
export function isIssuer(issuer: X509Certificate, certificate: X509Certificate): boolean {
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
}
