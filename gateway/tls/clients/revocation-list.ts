import { type KeyObject, verify } from 'node:crypto'
import {
  BIT_STRING,
  type DerValue,
  GENERALIZED_TIME,
  INTEGER,
  OBJECT_IDENTIFIER,
  readDer,
  readDerOf,
  readTime,
  SEQUENCE,
  UTC_TIME,
} from './der.ts'

/** The parts of a certificate revocation list (RFC 5280 section 5) that the gateway uses. Immutable. */
export interface RevocationList {
  readonly thisUpdateMs: number
  /** After this time OpenSSL accepts no certificate of its authority. Undefined: the list sets no end. */
  readonly nextUpdateMs: number | undefined
  /** Serial numbers of revoked certificates, as `X509Certificate.serialNumber` writes them. */
  readonly serials: ReadonlySet<string>
  /** Whether this key signed the list; undefined when the signature algorithm is not supported. */
  readonly isSignedBy: (key: KeyObject) => boolean | undefined
}

/** Hash by the signature algorithm's OID (DER, in hex); undefined for Ed25519, which has its own. */
const HASHES: ReadonlyMap<string, string | undefined> = new Map([
  ['2a864886f70d01010b', 'sha256'],
  ['2a864886f70d01010c', 'sha384'],
  ['2a864886f70d01010d', 'sha512'],
  ['2a8648ce3d040302', 'sha256'],
  ['2a8648ce3d040303', 'sha384'],
  ['2a8648ce3d040304', 'sha512'],
  ['2b6570', undefined],
])

/**
 * Parses one list. OpenSSL uses the lists in handshakes; the gateway needs them to check the files at load, and to find
 * certificates revoked after the handshake of an open connection.
 *
 * @throws when it is not a list
 */
export function readRevocationList(der: Buffer): RevocationList {
  const [signed, algorithm, signature, ...rest] = readDer(readDerOf(SEQUENCE, der).content)
  if (signature?.tag !== BIT_STRING || signed === undefined || algorithm === undefined || rest.length > 0) {
    throw new Error('not a revocation list')
  }
  const fields = readDer(signed.content)
  if (fields[0]?.tag === INTEGER) fields.shift()
  // Before thisUpdate: signature algorithm and issuer.
  const [, , thisUpdate, ...more] = fields
  if (thisUpdate === undefined) throw new Error('not a revocation list')
  const nextUpdate = isTime(more[0]) ? more.shift() : undefined
  const revoked = more[0]?.tag === SEQUENCE ? more[0] : undefined
  return {
    thisUpdateMs: readTime(thisUpdate),
    nextUpdateMs: nextUpdate === undefined ? undefined : readTime(nextUpdate),
    serials: new Set(revoked === undefined ? [] : readDer(revoked.content).map(serialOf)),
    isSignedBy: signatureCheck({ signed, algorithm, signature }),
  }
}

function isTime(value: DerValue | undefined): boolean {
  return value?.tag === UTC_TIME || value?.tag === GENERALIZED_TIME
}

function serialOf(entry: DerValue): string {
  const [serial] = readDer(entry.content)
  if (serial?.tag !== INTEGER) throw new Error('not a revocation list')
  const hex = serial.content.toString('hex').toUpperCase()
  // DER adds a zero byte when the first bit is set; OpenSSL prints the number without it.
  return hex.length > 2 && hex.startsWith('00') ? hex.slice(2) : hex
}

function signatureCheck(parts: {
  readonly signed: DerValue
  readonly algorithm: DerValue
  readonly signature: DerValue
}): RevocationList['isSignedBy'] {
  const [oid] = readDer(parts.algorithm.content)
  const name = oid?.tag === OBJECT_IDENTIFIER ? oid.content.toString('hex') : ''
  if (!HASHES.has(name)) return () => undefined
  const hash = HASHES.get(name)
  const data = Buffer.from(parts.signed.whole)
  // The first byte of a BIT STRING is the number of unused bits: 0.
  const signature = Buffer.from(parts.signature.content.subarray(1))
  return (key) => {
    try {
      return verify(hash, data, key, signature)
    } catch {
      // The key does not fit the signature algorithm.
      return false
    }
  }
}
