import type { KeyObject, X509Certificate } from 'node:crypto'
import {
  BIT_STRING,
  BOOLEAN,
  type DerSpan,
  derAt,
  derIn,
  dotted,
  EXPLICIT_0,
  expectTag,
  GENERALIZED_TIME,
  INTEGER,
  membersIn,
  membersOf,
  OBJECT_IDENTIFIER,
  readDer,
  SEQUENCE,
  TAG,
  timeOf,
  UTC_TIME,
} from '../../asn1/der.ts'
import { readSignatureAlgorithm, type SignatureAlgorithm } from '../../asn1/signature-algorithm.ts'

/** A certificate revocation list (RFC 5280 section 5). */
export interface RevocationList {
  /** The name of its authority: its DER, in hex. */
  readonly issuer: string
  readonly thisUpdateMs: number
  /** After this time OpenSSL accepts no certificate of its authority. Undefined: the list sets no end. */
  readonly nextUpdateMs: number | undefined
  /** Serial numbers of revoked certificates, as `X509Certificate.serialNumber` writes them. */
  readonly serials: ReadonlySet<string>
  readonly checkSignature: (key: KeyObject) => 'good' | 'bad' | 'unknown algorithm'
}

/** By the OID of an extension (DER, in hex): why a list with it must not be used (RFC 5280 section 5.2). */
const UNUSABLE: ReadonlyMap<string, string> = new Map([
  ['551d1b', 'is a delta list: complete lists are needed'],
  [
    '551d1c',
    'has an issuing distribution point: lists that cover all certificates of their authority are needed',
  ],
])
/** May be critical: OpenSSL knows it. */
const AUTHORITY_KEY_IDENTIFIER = '551d23'

/** A list that must not be used; its message is the rest of a sentence about the list. */
export class UnusableList extends Error {}

/**
 * Parses one complete list. OpenSSL uses the lists in handshakes; the gateway checks them at load, and finds certificates
 * revoked after the handshake of an open connection. @throws UnusableList when it covers not all certificates of its
 * authority, or has an unknown critical extension @throws Error when it is not a list
 */
export function readRevocationList(der: Buffer): RevocationList {
  const whole = derAt(der, 0, der.length)
  const [signed, algorithm, signature, ...rest] = derIn(der, whole)
  if (signature?.tag !== BIT_STRING || signed === undefined || algorithm === undefined || rest.length > 0) {
    throw new Error('not a revocation list')
  }
  const fields = [...derIn(der, signed)]
  if (fields[0]?.tag === INTEGER) fields.shift()
  const [, issuer, thisUpdate, ...more] = fields
  const nextUpdate = isTime(more[0]) ? more.shift() : undefined
  const revoked = more[0]?.tag === SEQUENCE ? more.shift() : undefined
  const extensions = more[0]?.tag === EXPLICIT_0 ? more.shift() : undefined
  if (whole.end !== der.length || issuer === undefined || thisUpdate === undefined || more.length > 0)
    throw new Error('not a revocation list')
  if (extensions !== undefined) checkExtensions(der, extensions)
  return {
    issuer: der.toString('hex', issuer.contentAt, issuer.end),
    thisUpdateMs: timeOf(der, thisUpdate),
    nextUpdateMs: nextUpdate === undefined ? undefined : timeOf(der, nextUpdate),
    serials: revoked === undefined ? new Set() : serialsOf(der, revoked),
    checkSignature: signatureCheck(der, signed, algorithm, signature),
  }
}

function isTime(value: DerSpan | undefined): boolean {
  return value?.tag === UTC_TIME || value?.tag === GENERALIZED_TIME
}

function checkExtensions(der: Buffer, { contentAt, end }: DerSpan): void {
  for (const extension of derIn(der, derAt(der, contentAt, end))) {
    const oid = oidOf(der, extension)
    const name = der.toString('hex', oid.contentAt, oid.end)
    const reason = UNUSABLE.get(name)
    if (reason !== undefined) throw new UnusableList(reason)
    if (isCritical(der, extension) && name !== AUTHORITY_KEY_IDENTIFIER)
      throw new UnusableList(
        `has a critical extension that is not known: ${dotted(der.subarray(oid.contentAt, oid.end))}`,
      )
  }
}

function serialsOf(der: Buffer, revoked: DerSpan): Set<string> {
  const serials = new Set<string>()
  for (const entry of derIn(der, revoked)) {
    const serial = derAt(der, entry.contentAt, entry.end)
    const date = derAt(der, serial.end, entry.end)
    if (entry.tag !== SEQUENCE || serial.tag !== INTEGER) throw new Error('not a revocation list')
    timeOf(der, date)
    if (date.end < entry.end) checkEntryExtensions(der, derAt(der, date.end, entry.end))
    const hex = der.toString('hex', serial.contentAt, serial.end).toUpperCase()
    // DER adds a zero byte when the first bit is set; OpenSSL prints the number without it.
    serials.add(hex.length > 2 && hex.startsWith('00') ? hex.slice(2) : hex)
  }
  return serials
}

/** Critical ones say that an entry means something else: a certificate of another issuer, or what nobody knows. */
function checkEntryExtensions(der: Buffer, extensions: DerSpan): void {
  for (const extension of derIn(der, extensions)) {
    if (!isCritical(der, extension)) continue
    const { contentAt, end } = oidOf(der, extension)
    throw new UnusableList(
      `has an entry with a critical extension that is not known: ${dotted(der.subarray(contentAt, end))}`,
    )
  }
}

function oidOf(der: Buffer, { contentAt, end }: DerSpan): DerSpan {
  const oid = derAt(der, contentAt, end)
  if (oid.tag !== OBJECT_IDENTIFIER) throw new Error('not an extension')
  return oid
}

function isCritical(der: Buffer, extension: DerSpan): boolean {
  const { tag, contentAt } = derAt(der, oidOf(der, extension).end, extension.end)
  return tag === BOOLEAN && der[contentAt] !== 0
}

function signatureCheck(
  der: Buffer,
  signed: DerSpan,
  algorithm: DerSpan,
  signature: DerSpan,
): RevocationList['checkSignature'] {
  const { verifies } = algorithmIn(der, algorithm)
  if (verifies === undefined) return () => 'unknown algorithm'
  const data = Buffer.from(der.subarray(signed.at, signed.end))
  // The first byte of a BIT STRING is the number of unused bits: 0.
  const bits = Buffer.from(der.subarray(signature.contentAt + 1, signature.end))
  return (key) => (verifies(key, data, bits) ? 'good' : 'bad')
}

function algorithmIn(der: Buffer, { at, end }: DerSpan): SignatureAlgorithm {
  const algorithm = readDer(der.subarray(at, end))
  try {
    return readSignatureAlgorithm(algorithm)
  } catch (error) {
    throw new UnusableList((error as Error).message.replace(/^it /, ''))
  }
}

interface ListsOfAuthority {
  /** It has signed them. */
  readonly proved: readonly RevocationList[]
  /** They have its name; their signature algorithm is not known here. */
  readonly named: readonly RevocationList[]
}

type Tie = keyof ListsOfAuthority | 'none'

export function listsOf(authority: X509Certificate, lists: readonly RevocationList[]): ListsOfAuthority {
  return {
    proved: lists.filter((list) => tieOf(list, authority) === 'proved'),
    named: lists.filter((list) => tieOf(list, authority) === 'named'),
  }
}

/** Lists may be long, so each signature is verified once per authority, not per connection. */
const MAX_TIES = 256
const TIES = new WeakMap<RevocationList, Map<string, Tie>>()

export function tieOf(list: RevocationList, authority: X509Certificate): Tie {
  let ties = TIES.get(list)
  if (ties === undefined) {
    ties = new Map()
    TIES.set(list, ties)
  }
  const { fingerprint256 } = authority
  const known = ties.get(fingerprint256)
  if (known !== undefined) return known
  if (ties.size >= MAX_TIES) ties.clear()
  const tie = findTie(list, authority)
  ties.set(fingerprint256, tie)
  return tie
}

function findTie(list: RevocationList, authority: X509Certificate): Tie {
  const signature = list.checkSignature(authority.publicKey)
  if (signature === 'good') return 'proved'
  return signature === 'unknown algorithm' && list.issuer === subjectDerOf(authority) ? 'named' : 'none'
}

/** In hex, without its own tag and length, like `RevocationList.issuer`. */
function subjectDerOf({ raw }: X509Certificate): string {
  const [signed] = membersOf(readDer(raw))
  const members = membersIn(signed, TAG.sequence)
  // Before the subject: version, which may be left out, serial number, algorithm, issuer and time.
  const subject = members[members[0]?.tag === TAG.explicit0 ? 5 : 4]
  return expectTag(subject, TAG.sequence).content.toString('hex')
}
