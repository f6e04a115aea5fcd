import type { KeyObject, X509Certificate } from 'node:crypto'
import { fieldsOf } from '../../asn1/certificate.ts'
import { type Der, expectTag, membersIn, oidOf, readDer, TAG, timeOf } from '../../asn1/der.ts'
import { readSignatureAlgorithm } from '../../asn1/signature-algorithm.ts'
import { type ListScope, readScope } from './list-scope.ts'

/** RFC 5280 section 5. */
export interface RevocationList {
  /** DER in hex. */
  readonly issuer: string
  readonly thisUpdateMs: number
  /** OpenSSL accepts no certificate of the authority afterwards. Undefined: the list sets no end. */
  readonly nextUpdateMs: number | undefined
  /** As `X509Certificate.serialNumber` writes them. */
  readonly serials: ReadonlySet<string>
  /** Undefined: it covers all certificates of its authority. */
  readonly scope: ListScope | undefined
  readonly checkSignature: (key: KeyObject) => 'good' | 'bad' | 'unknown algorithm'
}

const DELTA = '2.5.29.27'
const ISSUING_DISTRIBUTION_POINT = '2.5.29.28'
/** May be critical, because OpenSSL knows it. */
const AUTHORITY_KEY_IDENTIFIER = '2.5.29.35'

/** The message is the rest of a sentence about the list. */
export class UnusableList extends Error {}

/**
 * Parses one list. OpenSSL uses it in handshakes, the gateway uses it for open connections. @throws Error when it is no list
 * @throws UnusableList when it is a delta list, or has an unknown scope or critical extension
 */
export function readRevocationList(der: Buffer): RevocationList {
  const [signed, algorithm, signature, ...rest] = membersIn(readDer(der), TAG.sequence)
  const fields = [...membersIn(signed, TAG.sequence)]
  if (fields[0]?.tag === TAG.integer) fields.shift()
  const [, issuer, thisUpdate, ...more] = fields
  const hasEnd = more[0]?.tag === TAG.utcTime || more[0]?.tag === TAG.time
  const nextUpdate = hasEnd ? more.shift() : undefined
  const revoked = more[0]?.tag === TAG.sequence ? more.shift() : undefined
  const extensions = more[0]?.tag === TAG.explicit0 ? more.shift() : undefined
  if (issuer === undefined || thisUpdate === undefined || more.length > 0 || rest.length > 0)
    throw new Error('not a revocation list')
  const scope = extensions && scopeIn(extensions)
  const serials = new Set<string>()
  revoked?.each((entry) => serials.add(serialOf(entry)))
  return {
    issuer: issuer.bytes.toString('hex'),
    thisUpdateMs: timeOf(thisUpdate),
    nextUpdateMs: nextUpdate && timeOf(nextUpdate),
    serials,
    scope,
    checkSignature: signatureCheck(expectTag(signed, TAG.sequence), algorithm, signature),
  }
}

function scopeIn(extensions: Der): ListScope | undefined {
  const [list] = extensions.members()
  let scope: ListScope | undefined
  for (const extension of membersIn(list, TAG.sequence)) {
    const [oid, critical, ...rest] = extension.members()
    const name = oidOf(oid)
    if (name === DELTA) throw new UnusableList('is a delta list: complete lists are needed')
    if (name === ISSUING_DISTRIBUTION_POINT) {
      const value = expectTag(rest[0] ?? critical, TAG.octets)
      scope = scope === undefined ? readScope(readDer(value.content)) : undefined
      if (scope === undefined)
        throw new UnusableList('has an issuing distribution point of a kind that is not supported')
    } else if (isTrue(critical) && name !== AUTHORITY_KEY_IDENTIFIER)
      throw new UnusableList(`has a critical extension that is not known: ${name}`)
  }
  return scope
}

function serialOf(entry: Der): string {
  const [serial, date, extensions] = membersIn(entry, TAG.sequence)
  if (date === undefined) throw new Error('not a revocation list')
  timeOf(date)
  if (extensions !== undefined) checkEntryExtensions(extensions)
  const hex = expectTag(serial, TAG.integer).hex.toUpperCase()
  // DER adds a zero byte when the first bit is set; OpenSSL prints the number without it.
  return hex.length > 2 && hex.startsWith('00') ? hex.slice(2) : hex
}

/** Refuses critical extensions, because they change what an entry means. */
function checkEntryExtensions(extensions: Der): void {
  for (const extension of membersIn(extensions, TAG.sequence)) {
    const [oid, critical] = extension.members()
    if (isTrue(critical))
      throw new UnusableList(`has an entry with a critical extension that is not known: ${oidOf(oid)}`)
  }
}

function isTrue(flag: Der | undefined): boolean {
  return flag?.tag === TAG.boolean && flag.content[0] !== 0
}

function signatureCheck(
  signed: Der,
  algorithm: Der | undefined,
  signature: Der | undefined,
): RevocationList['checkSignature'] {
  // The first byte of a BIT STRING is the number of unused bits: 0.
  const bits = Buffer.from(expectTag(signature, TAG.bits).content.subarray(1))
  const { verifies } = algorithmIn(algorithm)
  if (verifies === undefined) return () => 'unknown algorithm'
  const data = Buffer.from(signed.bytes)
  return (key) => (verifies(key, data, bits) ? 'good' : 'bad')
}

function algorithmIn(algorithm: Der | undefined): ReturnType<typeof readSignatureAlgorithm> {
  const one = expectTag(algorithm, TAG.sequence)
  try {
    return readSignatureAlgorithm(one)
  } catch (error) {
    throw new UnusableList((error as Error).message.replace(/^it /, ''))
  }
}

interface ListsOfAuthority {
  /** Lists that the authority has signed. */
  readonly proved: readonly RevocationList[]
  /** Lists that have the authority's name and an unknown signature algorithm. */
  readonly named: readonly RevocationList[]
}

type Tie = keyof ListsOfAuthority | 'none'

export function listsOf(authority: X509Certificate, lists: readonly RevocationList[]): ListsOfAuthority {
  const { proved = [], named = [] } = Object.groupBy(lists, (list) => tieOf(list, authority))
  return { proved, named }
}

/** A list may be long, so its signature is verified once per authority, not per connection. */
const MAX_TIES = 256
const TIES = new WeakMap<RevocationList, Map<string, Tie>>()

export function tieOf(list: RevocationList, authority: X509Certificate): Tie {
  const { fingerprint256 } = authority
  const ties = TIES.getOrInsertComputed(list, () => new Map())
  if (ties.size >= MAX_TIES && !ties.has(fingerprint256)) ties.clear()
  return ties.getOrInsertComputed(fingerprint256, () => findTie(list, authority))
}

function findTie(list: RevocationList, authority: X509Certificate): Tie {
  const signature = list.checkSignature(authority.publicKey)
  if (signature === 'good') return 'proved'
  const isNamed = () => list.issuer === fieldsOf(authority).subject.bytes.toString('hex')
  return signature === 'unknown algorithm' && isNamed() ? 'named' : 'none'
}
