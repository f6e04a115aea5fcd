import { hash, type KeyObject, X509Certificate } from 'node:crypto'
import { fieldsOf } from '../../asn1/certificate.ts'
import { type Der, der, derOid, expectTag, membersIn, oidOf, readDer, TAG, timeOf } from '../../asn1/der.ts'
import { HASHES, readSignatureAlgorithm, SHA_1 } from '../../asn1/signature-algorithm.ts'
import { isIssuer } from '../clients/trust.ts'

export interface IssuedCertificate {
  readonly leaf: X509Certificate
  readonly issuer: X509Certificate
}

export class Revoked extends Error {
  readonly thisUpdateMs: number

  constructor(thisUpdateMs: number) {
    super('the authority has revoked the certificate')
    this.thisUpdateMs = thisUpdateMs
  }
}
/** The authority calls the certificate neither good nor revoked. */
export class Unknown extends Error {}
/** A longer response would slow every handshake. */
const MAX_RESPONSE_BYTES = 64 * 1024
/** How far the authority's clock may be ahead. */
const MAX_SKEW_MS = 300_000
const MAX_CERTIFICATES = 10
const ENUMERATED = 0x0a
const NEXT_UPDATE = TAG.explicit0
const VERSION = TAG.explicit0
const CERTIFICATES = TAG.explicit0
/** certStatus, a choice of implicit tags. */
const [GOOD, REVOKED] = [0x80, 0xa1]
const BASIC = '1.3.6.1.5.5.7.48.1.1'
const OCSP_SIGNING = '1.3.6.1.5.5.7.3.9'
const STATUS: ReadonlyMap<number, string> = new Map([
  [1, 'malformedRequest'],
  [2, 'internalError'],
  [3, 'tryLater'],
  [5, 'sigRequired'],
  [6, 'unauthorized'],
])

/**
 * Checks that an OCSPResponse (RFC 6960) calls the certificate good now. @throws Revoked @throws Unknown @throws Error
 * @param lifeMs how long a response without nextUpdate is valid
 */
export function checkOcspResponse(
  response: Buffer,
  certificate: IssuedCertificate,
  nowMs: number,
  lifeMs?: number,
) {
  if (response.length > MAX_RESPONSE_BYTES) throw new Error(`it is longer than ${MAX_RESPONSE_BYTES} bytes`)
  const [data, algorithm, signature, certificates] = membersIn(basicResponse(response), TAG.sequence)
  const signed = { data, algorithm, signature, certificates }
  const single = singleResponse(expectTag(data, TAG.sequence), certificate)
  verifySigner(signed, certificate.issuer, nowMs)
  const [, status, thisUpdate, ...rest] = single
  const thisUpdateMs = timeOf(expectTag(thisUpdate, TAG.time))
  if (status?.tag === REVOKED) throw new Revoked(thisUpdateMs)
  const nextUpdate = rest.find(({ tag }) => tag === NEXT_UPDATE)
  if (nextUpdate === undefined && lifeMs === undefined)
    throw new Error('it does not say until when it is valid')
  const nextUpdateMs =
    nextUpdate === undefined
      ? thisUpdateMs + (lifeMs ?? 0)
      : timeOf(expectTag(nextUpdate.members()[0], TAG.time))
  if (nowMs >= nextUpdateMs) throw new Error(`it expired at ${new Date(nextUpdateMs).toISOString()}`)
  if (nowMs < thisUpdateMs - MAX_SKEW_MS)
    throw new Error(`it is not valid before ${new Date(thisUpdateMs).toISOString()}`)
  if (status?.tag !== GOOD) throw new Unknown('the authority does not know the certificate')
  return { thisUpdateMs, nextUpdateMs }
}

function basicResponse(response: Buffer): Der {
  const [status, bytes] = membersIn(readDer(response), TAG.sequence)
  const code = expectTag(status, ENUMERATED).content[0] ?? -1
  if (code !== 0) throw new Error(`the authority answers ${STATUS.get(code) ?? `with the status ${code}`}`)
  const [type, basic] = membersIn(membersIn(bytes, TAG.explicit0)[0], TAG.sequence)
  if (oidOf(type) !== BASIC) throw new Error('it is of a kind that is not known')
  return readDer(expectTag(basic, TAG.octets).content)
}

function singleResponse(data: Der, certificate: IssuedCertificate): readonly Der[] {
  const members = data.members()
  // Before the responses stand the version (optional), the responder and the time.
  const responses = members[members[0]?.tag === VERSION ? 3 : 2]
  for (const response of membersIn(responses, TAG.sequence)) {
    const single = membersIn(response, TAG.sequence)
    if (isOf(membersIn(single[0], TAG.sequence), certificate)) return single
  }
  throw new Error('it is for another certificate')
}

function isOf([algorithm, name, key, serial]: readonly Der[], { leaf, issuer }: IssuedCertificate): boolean {
  const digest = HASHES.get(oidOf(membersIn(algorithm, TAG.sequence)[0]))
  const names = fieldsOf(leaf)
  if (digest === undefined || !expectTag(serial, TAG.integer).bytes.equals(names.serial.bytes)) return false
  const isSame = (found: Der | undefined, bytes: Buffer) =>
    expectTag(found, TAG.octets).content.equals(hash(digest, bytes, 'buffer'))
  return isSame(name, names.issuer.bytes) && isSame(key, keyBytes(issuer.publicKey))
}

/** The bits of the key alone, as authorities hash them. */
function keyBytes(key: KeyObject): Buffer {
  const [, bits] = readDer(key.export({ type: 'spki', format: 'der' })).members()
  return bitsOf(bits)
}

/** The first byte must say that the BIT STRING has whole bytes only. */
function bitsOf(bits: Der | undefined): Buffer {
  const { content } = expectTag(bits, TAG.bits)
  if (content[0] !== 0)
    throw new Error('not the DER that was expected: a bit string that does not end at a whole byte')
  return content.subarray(1)
}

interface Signed {
  readonly data: Der | undefined
  readonly algorithm: Der | undefined
  readonly signature: Der | undefined
  readonly certificates: Der | undefined
}

function verifySigner(signed: Signed, issuer: X509Certificate, nowMs: number): void {
  const { name, verifies } = readSignatureAlgorithm(signed.algorithm)
  if (verifies === undefined) throw new Error(`the signature algorithm ${name} is not accepted`)
  const data = expectTag(signed.data, TAG.sequence).bytes
  const signature = bitsOf(signed.signature)
  const signers = [issuer, ...delegates(signed.certificates, issuer, nowMs)]
  if (!signers.some(({ publicKey }) => verifies(publicKey, data, signature))) {
    throw new Error('it is signed neither by the issuer of the certificate nor by a responder of that issuer')
  }
}

/** Certificates that may sign for the issuer (RFC 6960 section 4.2.2.2). */
function delegates(certificates: Der | undefined, issuer: X509Certificate, nowMs: number): X509Certificate[] {
  if (certificates === undefined) return []
  const [list] = membersIn(certificates, CERTIFICATES)
  return membersIn(list, TAG.sequence)
    .slice(0, MAX_CERTIFICATES)
    .map(({ bytes }) => new X509Certificate(bytes))
    .filter(
      (one) =>
        one.keyUsage?.includes(OCSP_SIGNING) === true &&
        nowMs >= one.validFromDate.getTime() &&
        nowMs <= one.validToDate.getTime() &&
        isIssuer(issuer, one),
    )
}

const RESPONDER = /^OCSP - URI:(.+)$/m

/** An OCSPRequest (RFC 6960 section 4.1.1). Names are hashed by SHA-1, which every responder knows. */
export function ocspRequest({ leaf, issuer }: IssuedCertificate): Buffer {
  const names = fieldsOf(leaf)
  const id = der(
    TAG.sequence,
    der(TAG.sequence, derOid(SHA_1), der(TAG.null)),
    der(TAG.octets, hash('sha1', names.issuer.bytes, 'buffer')),
    der(TAG.octets, hash('sha1', keyBytes(issuer.publicKey), 'buffer')),
    names.serial.bytes,
  )
  const requests = der(TAG.sequence, der(TAG.sequence, id))
  return der(TAG.sequence, der(TAG.sequence, requests))
}

/** Undefined: the certificate names no responder, or the first has no plain http URL. */
export function responderOf({ infoAccess }: X509Certificate): string | undefined {
  const written = RESPONDER.exec(infoAccess ?? '')?.[1]
  // Node quotes a URL that could be misread; authorities need no such URL.
  const url = written === undefined || written.startsWith('"') ? null : URL.parse(written)
  return url?.protocol === 'http:' && url.username === '' ? url.href : undefined
}
