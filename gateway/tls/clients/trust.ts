import type { X509Certificate } from 'node:crypto'
import { covers } from './list-scope.ts'
import { listsOf, type RevocationList, tieOf } from './revocation-list.ts'

/** Immutable; replaced at a reload. */
export interface ClientTrust {
  readonly authorities: readonly X509Certificate[]
  readonly lists: readonly RevocationList[]
  /** True for independent authorities: then it matters which one issued a certificate. */
  readonly independent: boolean
}

export interface SentChain {
  readonly leaf: X509Certificate
  readonly intermediates: readonly X509Certificate[]
}

interface TrustedPath {
  /** Nearest first. */
  readonly authorities: readonly X509Certificate[]
  readonly goodUntilMs: number
}

/** Finds a path of valid, unrevoked certificates to a self-signed authority. A text says why there is none. */
export function trustedPath(
  { leaf, intermediates }: SentChain,
  { authorities, lists }: Pick<ClientTrust, 'authorities' | 'lists'>,
  nowMs: number,
): TrustedPath | string {
  const pool = [...authorities, ...intermediates]
  const seen = new Set<X509Certificate>()
  return pathOf(leaf)

  function pathOf(certificate: X509Certificate): TrustedPath | string {
    const notAfterMs = certificate.validToDate.getTime()
    if (nowMs > notAfterMs)
      return certificate === leaf ? 'it has expired' : 'the certificate of its issuer has expired'
    const own = authorities.includes(certificate) ? [certificate] : []
    if (own.length > 0 && isIssuer(certificate, certificate))
      return { authorities: own, goodUntilMs: notAfterMs }
    let fault: string | undefined
    for (const issuer of pool) {
      if (seen.has(issuer) || !isIssuer(issuer, certificate)) continue
      seen.add(issuer)
      const path = pathThrough(issuer, certificate)
      if (typeof path !== 'string') {
        const goodUntilMs = Math.min(notAfterMs, path.goodUntilMs)
        return { authorities: [...own, ...path.authorities], goodUntilMs }
      }
      fault ??= path
    }
    return fault ?? 'no authority in force has issued it'
  }

  function pathThrough(issuer: X509Certificate, certificate: X509Certificate): TrustedPath | string {
    const covering = lists.filter((list) => covers(list, certificate))
    const { proved, named } = listsOf(issuer, covering)
    const ours = listInForce(proved, nowMs)
    const ofName = listInForce(named, nowMs)
    // It is not known here which of the two lists OpenSSL uses, so each may revoke.
    for (const counting of [ours, ofName])
      if (counting?.list.serials.has(certificate.serialNumber)) return 'it was revoked'
    const path = pathOf(issuer)
    if (typeof path === 'string') return path
    const inForce = ours ?? ofName
    // Like OpenSSL: once there is any list, each issuer needs one that is not out of date.
    if (inForce === undefined)
      return lists.length > 0 ? 'its issuer has no revocation list here that covers it' : path
    if (nowMs > endMsOf(inForce.list)) return LIST_OUT_OF_DATE
    return {
      ...path,
      goodUntilMs: Math.min(path.goodUntilMs, ours?.goodUntilMs ?? NEVER, ofName?.goodUntilMs ?? NEVER),
    }
  }
}

/** When the first authority expires, and when the first scope has no valid list any more; Infinity: never. */
export function trustGoodUntilMs({ authorities, lists }: Pick<ClientTrust, 'authorities' | 'lists'>) {
  const ofSent = lists.filter((list) => authorities.every((authority) => tieOf(list, authority) === 'none'))
  const bySigner = [...Map.groupBy(ofSent, ({ issuer }) => issuer).values()]
  return {
    authorities: Math.min(...authorities.map(({ validToDate }) => validToDate.getTime())),
    lists: Math.min(
      ...authorities.map((authority) => {
        const { proved, named } = listsOf(authority, lists)
        return firstScopeEndMs(proved.length > 0 ? proved : named)
      }),
      ...bySigner.map(firstScopeEndMs),
    ),
  }
}

function firstScopeEndMs(lists: readonly RevocationList[]): number {
  const byScope = Map.groupBy(lists, ({ scope }) => scope?.key)
  return Math.min(...[...byScope.values()].map((ofOne) => Math.max(...ofOne.map(endMsOf))))
}

/** The only temporary fault: with a renewed list, the certificate is accepted again, if the handshake accepted it. */
export const LIST_OUT_OF_DATE = 'the revocation list of its issuer is out of date'

const NEVER = Number.POSITIVE_INFINITY

interface ListInForce {
  readonly list: RevocationList
  readonly goodUntilMs: number
}

/** Chooses as OpenSSL does: the valid list that was issued last; if none is valid, the last list. */
function listInForce(lists: readonly RevocationList[], nowMs: number): ListInForce | undefined {
  const valid = lists.filter((list) => list.thisUpdateMs <= nowMs && nowMs <= endMsOf(list))
  const [list] = (valid.length > 0 ? valid : lists).toSorted((a, b) => b.thisUpdateMs - a.thisUpdateMs)
  if (list === undefined) return undefined
  const changesMs = [endMsOf(list), ...lists.map(({ thisUpdateMs }) => thisUpdateMs)]
  return { list, goodUntilMs: Math.min(...changesMs.filter((atMs) => atMs >= nowMs)) }
}

function endMsOf({ nextUpdateMs }: RevocationList): number {
  return nextUpdateMs ?? NEVER
}

export function isIssuer(issuer: X509Certificate, certificate: X509Certificate): boolean {
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
}
