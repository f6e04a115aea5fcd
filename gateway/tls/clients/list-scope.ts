import type { X509Certificate } from 'node:crypto'
import { extensionOf } from '../../asn1/certificate.ts'
import { type Der, membersIn, TAG } from '../../asn1/der.ts'

/** The part of an authority's certificates that a partitioned revocation list covers (RFC 5280 section 5.2.5). */
export interface ListScope {
  /** The extension in hex; lists of the same scope replace one another. */
  readonly key: string
  /** DER in hex. A certificate must name one of these points. Undefined: it need not name any. */
  readonly points: ReadonlySet<string> | undefined
  readonly only: 'users' | 'authorities' | undefined
}

const CRL_DISTRIBUTION_POINTS = '2.5.29.31'
/** Implicit tags of an IssuingDistributionPoint. Other tags are not supported. */
const [POINT, USERS, AUTHORITIES] = [0xa0, 0x81, 0x82]
/** cRLIssuer of a DistributionPoint: another authority signs the list. */
const OTHER_ISSUER = 0xa2

/** Undefined: the scope is not supported. */
export function readScope(issuingPoint: Der): ListScope | undefined {
  let points: ReadonlySet<string> | undefined
  let only: ListScope['only']
  for (const field of membersIn(issuingPoint, TAG.sequence)) {
    if (field.tag === POINT) points = new Set(namesIn(field))
    else if (only === undefined && field.tag === USERS) only = 'users'
    else if (only === undefined && field.tag === AUTHORITIES) only = 'authorities'
    else return undefined
  }
  return points?.size === 0 ? undefined : { key: issuingPoint.hex, points, only }
}

export function covers({ scope }: { readonly scope: ListScope | undefined }, certificate: X509Certificate) {
  if (scope === undefined) return true
  const kind = certificate.ca ? 'authorities' : 'users'
  if (scope.only !== undefined && scope.only !== kind) return false
  const { points } = scope
  return (
    points === undefined ||
    POINTS.getOrInsertComputed(certificate, readPoints).some((name) => points.has(name))
  )
}

/** Points of each certificate, read once because there may be a thousand lists. */
const POINTS = new WeakMap<X509Certificate, readonly string[]>()

/** No points when they are not well-formed. */
function readPoints(certificate: X509Certificate): string[] {
  try {
    const points = extensionOf(certificate, CRL_DISTRIBUTION_POINTS)
    return (points === undefined ? [] : membersIn(points, TAG.sequence))
      .map((point) => membersIn(point, TAG.sequence))
      .filter((fields) => fields.every(({ tag }) => tag !== OTHER_ISSUER))
      .flatMap(([first]) => (first?.tag === POINT ? namesIn(first) : []))
  } catch {
    return []
  }
}

/** Names of a point; none if its name is relative to the issuer. */
function namesIn(point: Der): string[] {
  const [name] = point.members()
  return name?.tag === TAG.explicit0 ? name.members().map(({ bytes }) => bytes.toString('hex')) : []
}
