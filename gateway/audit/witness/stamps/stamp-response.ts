import { hash, X509Certificate } from 'node:crypto'
import { type Der, derInteger, expectTag, membersIn, oidOf, readDer, TAG } from '../../../asn1/der.ts'
import { HASHES, readSignatureAlgorithm, SHA_256 } from '../../../asn1/signature-algorithm.ts'

interface Stamp {
  readonly timeMs: number
  readonly policy: string
  /** Hexadecimal. */
  readonly serial: string
}

export interface ExpectedStamp {
  /** SHA-256 of what was stamped. */
  readonly hash: Uint8Array
  readonly nonce?: Uint8Array
  readonly policy?: string
  /** The chain of the signer's certificate must lead to one of these. */
  readonly authorities: readonly X509Certificate[]
}

const STATUS = ['granted', 'granted with changes', 'rejection', 'waiting', 'revocation warning', 'revoked']
const SIGNED_DATA = '1.2.840.113549.1.7.2'
const TST_INFO = '1.2.840.113549.1.9.16.1.4'
const MAX_TEXT = 200

/**
 * Checks that a TimeStampResp (RFC 3161 section 2.4.2, RFC 5816) is granted, fits hash and nonce, and is signed with a
 * time-stamping certificate of an authority. Revocation and path constraints are not checked.
 * @throws Error that says what is wrong
 */
export function checkStamp(response: Buffer, expected: ExpectedStamp): Stamp {
  const [status, token] = membersIn(readDer(response), TAG.sequence)
  checkStatus(status)
  const [type, signed] = membersIn(token, TAG.sequence)
  if (oidOf(type) !== SIGNED_DATA) throw new Error('the time stamp is not signed data')
  const [signedData] = membersIn(signed, TAG.explicit0)
  const info = contentOf(signedData)
  const stamp = checkInfo(readDer(info), expected)
  verifySigned(membersIn(signedData, TAG.sequence), {
    content: info,
    timeMs: stamp.timeMs,
    authorities: expected.authorities,
  })
  return stamp
}

function checkStatus(info: Der | undefined): void {
  const [code, texts] = membersIn(info, TAG.sequence)
  const { content } = expectTag(code, TAG.integer)
  const status = content.length === 1 ? (content[0] as number) : STATUS.length
  if (status <= 1) return
  const said = texts?.tag === TAG.sequence ? membersIn(texts, TAG.sequence) : []
  const text = said.map((one) => one.content.toString('utf8')).join(' ')
  const name = STATUS[status] ?? 'an unknown status'
  throw new Error(`the authority grants no time stamp: ${name} ${JSON.stringify(text.slice(0, MAX_TEXT))}`)
}

function contentOf(signedData: Der | undefined): Buffer {
  const [, , encapsulated] = membersIn(signedData, TAG.sequence)
  const [type, content] = membersIn(encapsulated, TAG.sequence)
  if (oidOf(type) !== TST_INFO) throw new Error('the signed content is not a time stamp')
  const [octets] = membersIn(content, TAG.explicit0)
  return expectTag(octets, TAG.octets).content
}

function checkInfo(info: Der, { hash, nonce, policy }: ExpectedStamp): Stamp {
  const [, foundPolicy, imprint, serial, time, ...rest] = membersIn(info, TAG.sequence)
  const [algorithm, digest] = membersIn(imprint, TAG.sequence)
  const [algorithmName] = membersIn(algorithm, TAG.sequence)
  if (oidOf(algorithmName) !== SHA_256) throw new Error('the time stamp is not for a SHA-256 hash')
  if (!expectTag(digest, TAG.octets).content.equals(hash))
    throw new Error('the time stamp is for another hash')
  const found = { policy: oidOf(foundPolicy), serial: expectTag(serial, TAG.integer).content.toString('hex') }
  if (policy !== undefined && found.policy !== policy) {
    throw new Error(`the time stamp has the policy ${found.policy}, not ${policy}`)
  }
  const foundNonce = rest.find(({ tag }) => tag === TAG.integer)
  if (nonce !== undefined && !foundNonce?.bytes.equals(derInteger(nonce))) {
    throw new Error('the time stamp is not for this request: its nonce differs')
  }
  return { ...found, timeMs: timeOf(expectTag(time, TAG.time).content.toString('latin1')) }
}

/** GeneralizedTime in UTC, with seconds. */
function timeOf(text: string): number {
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\.\d{1,9})?Z$/.exec(text)
  const [, year, month, day, hour, minute, second, fraction = ''] = parts ?? []
  const timeMs = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}${fraction.slice(0, 4)}Z`)
  if (Number.isNaN(timeMs)) throw new Error('the time stamp has a time that cannot be read')
  return timeMs
}

interface SignedContent {
  readonly content: Buffer
  /** When certificates must be valid. */
  readonly timeMs: number
  readonly authorities: readonly X509Certificate[]
}

const OID = {
  contentType: '1.2.840.113549.1.9.3',
  messageDigest: '1.2.840.113549.1.9.4',
  signingCertificate: '1.2.840.113549.1.9.16.2.12',
  signingCertificateV2: '1.2.840.113549.1.9.16.2.47',
  timeStamping: '1.3.6.1.5.5.7.3.8',
} as const

/** Tag of the certificates and of the signed attributes (RFC 5652). */
const IMPLICIT_0 = TAG.explicit0
const MAX_CERTIFICATES = 16

/** Verifies the one signature of a SignedData (RFC 5652 section 5). @param signedData its members */
function verifySigned(signedData: readonly Der[], signed: SignedContent): void {
  const [signerInfo, ...others] = membersIn(signedData.at(-1), TAG.set)
  if (signerInfo === undefined || others.length > 0)
    throw new Error('the time stamp must have exactly one signature')
  const [, , digestAlgorithm, attributes, signatureAlgorithm, signature] = membersIn(signerInfo, TAG.sequence)
  const attributeSet = expectTag(attributes, IMPLICIT_0)
  const byType = new Map(
    attributeSet.members().map((attribute) => {
      const [type, values] = membersIn(attribute, TAG.sequence)
      return [oidOf(type), membersIn(values, TAG.set)[0]] as const
    }),
  )
  const digest = digestOf(digestAlgorithm)
  if (oidOf(byType.get(OID.contentType)) !== TST_INFO) {
    throw new Error('the signature is for another kind of content')
  }
  const { content: expected } = expectTag(byType.get(OID.messageDigest), TAG.octets)
  if (!hash(digest, signed.content, 'buffer').equals(expected)) {
    throw new Error('the signature is for another time stamp')
  }
  const certificates = certificatesIn(signedData)
  const signer = signerAmong(certificates, byType)
  const { name, verifies } = readSignatureAlgorithm(signatureAlgorithm, digest)
  if (verifies === undefined) throw new Error(`the signature algorithm ${name} is not accepted`)
  // The signed bytes begin with the tag of a set (RFC 5652 section 5.4).
  const data = Buffer.concat([Buffer.from([TAG.set]), attributeSet.bytes.subarray(1)])
  if (!verifies(signer.publicKey, data, expectTag(signature, TAG.octets).content))
    throw new Error('the signature of the time stamp is wrong')
  checkChain(signer, certificates, signed)
}

function digestOf(algorithm: Der | undefined): string {
  const [name] = membersIn(algorithm, TAG.sequence)
  const digest = HASHES.get(oidOf(name))
  if (digest === undefined || digest === 'sha1') throw new Error(`the hash ${oidOf(name)} is not accepted`)
  return digest
}

function certificatesIn(signedData: readonly Der[]): readonly X509Certificate[] {
  const set = signedData.find(({ tag }) => tag === IMPLICIT_0)
  const found = set?.members() ?? []
  if (found.length > MAX_CERTIFICATES) throw new Error('the time stamp has too many certificates')
  return found.map(({ bytes }) => new X509Certificate(bytes))
}

/** Finds the certificate that a signed attribute names by its hash (RFC 5816, with SHA-1 in RFC 3161). */
function signerAmong(
  certificates: readonly X509Certificate[],
  attributes: ReadonlyMap<string, Der | undefined>,
): X509Certificate {
  const v2 = attributes.get(OID.signingCertificateV2)
  const [ids] = membersIn(v2 ?? attributes.get(OID.signingCertificate), TAG.sequence)
  const [first] = membersIn(ids, TAG.sequence)
  const [one, two] = membersIn(first, TAG.sequence)
  const names = one?.tag === TAG.sequence
  const { content } = expectTag(names ? two : one, TAG.octets)
  const digest = v2 === undefined ? 'sha1' : names ? digestOf(one) : 'sha256'
  const signer = certificates.find(({ raw }) => hash(digest, raw, 'buffer').equals(content))
  if (signer === undefined) throw new Error('the time stamp does not hold the certificate that it names')
  return signer
}

function checkChain(
  signer: X509Certificate,
  others: readonly X509Certificate[],
  { authorities, timeMs }: SignedContent,
): void {
  const purposes = signer.keyUsage ?? []
  if (purposes.length !== 1 || purposes[0] !== OID.timeStamping) {
    throw new Error('the certificate of the signer is not for time stamps alone')
  }
  let certificate = signer
  for (let length = 0; length <= MAX_CERTIFICATES; length++) {
    const from = certificate.validFromDate.getTime()
    if (timeMs < from || timeMs > certificate.validToDate.getTime()) {
      throw new Error(`the certificate of ${nameOf(certificate)} is not valid at the time of the stamp`)
    }
    const { raw } = certificate
    if (authorities.some((authority) => authority.raw.equals(raw))) return
    const issuer = [...authorities, ...others].find(
      (other) => other.ca && certificate.checkIssued(other) && certificate.verify(other.publicKey),
    )
    if (issuer === undefined || issuer.raw.equals(raw)) break
    certificate = issuer
  }
  throw new Error(`no trusted authority has issued the certificate of ${nameOf(signer)}`)
}

function nameOf({ subject }: X509Certificate): string {
  return JSON.stringify(subject.replaceAll('\n', ', ').slice(0, MAX_TEXT))
}
