// Needed by @peculiar/x509, before its import.
import 'reflect-metadata'
import { KeyObject, randomBytes, webcrypto } from 'node:crypto'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  Extension,
  type JsonGeneralName,
  KeyUsageFlags,
  KeyUsagesExtension,
  Name,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  type X509Certificate,
  X509CertificateGenerator,
  X509CrlGenerator,
} from '@peculiar/x509'

/** Certificates for demos and tests, with unencrypted keys. The gateway itself does not use this file. */

/** RFC 5280 section 4.2.1.12. */
export const SERVER_AUTH = '1.3.6.1.5.5.7.3.1'
export const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'
const DAY_MS = 86_400_000
const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

export interface Issued {
  readonly certificate: X509Certificate
  readonly certPem: string
  readonly keyPem: string
}

export interface Authority extends Issued {
  readonly keys: webcrypto.CryptoKeyPair
}

export interface CertificateOptions {
  /** RFC 4514, most specific first. */
  readonly subject: string
  /** Undefined: self-signed. */
  readonly issuer?: Authority | undefined
  /** Days from now; default: one day ago to 30 days ahead. */
  readonly fromDays?: number
  readonly untilDays?: number
  readonly san?: readonly JsonGeneralName[]
  /** Default: none, so valid for any usage. */
  readonly extendedKeyUsages?: readonly string[]
  /** Values in DER, by OID. */
  readonly extensions?: Readonly<Record<string, Buffer>>
  /** OIDs of critical extensions that no verifier supports. */
  readonly criticalOids?: readonly string[]
  /** Default: true, as RFC 5280 section 4.2.1.1 requires. */
  readonly keyIdentifiers?: boolean
  readonly rsaBits?: number
  /** Default: new ones. */
  readonly keys?: webcrypto.CryptoKeyPair
}

export function makeAuthority(options: CertificateOptions): Promise<Authority> {
  const usages = KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign
  return make(options, [
    new BasicConstraintsExtension(true, undefined, true),
    new KeyUsagesExtension(usages, true),
  ])
}

export function makeCertificate(options: CertificateOptions): Promise<Issued> {
  const { san = [], extendedKeyUsages = [] } = options
  const extensions: Extension[] = [
    new BasicConstraintsExtension(false, undefined, true),
    new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
  ]
  if (extendedKeyUsages.length > 0) extensions.push(new ExtendedKeyUsageExtension([...extendedKeyUsages]))
  if (san.length > 0) extensions.push(new SubjectAlternativeNameExtension([...san]))
  return make(options, extensions)
}

async function make(options: CertificateOptions, extensions: readonly Extension[]): Promise<Authority> {
  const { issuer, fromDays = -1, untilDays = 30 } = options
  // A certificate holds the names in the reverse order of RFC 4514; the generator does not reverse them.
  const subject = new Name(new Name(options.subject).toJSON().reverse())
  const keys = options.keys ?? (await makeKeys(options.rsaBits))
  const issuerKeys = issuer?.keys ?? keys
  const identifiers = [
    await SubjectKeyIdentifierExtension.create(keys.publicKey),
    await AuthorityKeyIdentifierExtension.create(issuerKeys.publicKey),
  ]
  const certificate = await X509CertificateGenerator.create({
    // Positive, whatever the random bits (RFC 5280 section 4.1.2.2).
    serialNumber: `4${randomBytes(15).toString('hex').slice(1)}`,
    subject,
    issuer: issuer === undefined ? subject : issuer.certificate.subjectName,
    notBefore: daysFromNow(fromDays),
    notAfter: daysFromNow(untilDays),
    publicKey: keys.publicKey,
    signingKey: issuerKeys.privateKey,
    signingAlgorithm: signingAlgorithm(issuerKeys.privateKey),
    extensions: [
      ...extensions,
      ...(options.keyIdentifiers === false ? [] : identifiers),
      ...Object.entries(options.extensions ?? {}).map(([oid, value]) => new Extension(oid, false, value)),
      ...(options.criticalOids ?? []).map((oid) => new Extension(oid, true, Buffer.from([5, 0]))),
    ],
  })
  const keyPem = String(KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }))
  return { certificate, certPem: pem('CERTIFICATE', certificate.rawData), keyPem, keys }
}

/** PEM, by default valid from an hour ago, for 30 days. */
export async function makeRevocationList(
  authority: Authority,
  options: {
    readonly revoked?: readonly Issued[]
    readonly fromDays?: number
    readonly untilDays?: number
    /** IssuingDistributionPoint, in DER. Default: the list covers all certificates. */
    readonly scope?: Buffer
  } = {},
): Promise<string> {
  const { revoked = [], fromDays = -1 / 24, untilDays = 30, scope } = options
  const list = await X509CrlGenerator.create({
    issuer: authority.certificate.subjectName,
    thisUpdate: daysFromNow(fromDays),
    nextUpdate: daysFromNow(untilDays),
    signingAlgorithm: signingAlgorithm(authority.keys.privateKey),
    signingKey: authority.keys.privateKey,
    entries: revoked.map(({ certificate }) => ({
      serialNumber: certificate.serialNumber,
      revocationDate: daysFromNow(fromDays),
    })),
    extensions: [
      await AuthorityKeyIdentifierExtension.create(authority.keys.publicKey),
      ...(scope === undefined ? [] : [new Extension('2.5.29.28', true, scope)]),
    ],
  })
  return pem('X509 CRL', list.rawData)
}

function makeKeys(rsaBits: number | undefined): Promise<webcrypto.CryptoKeyPair> {
  if (rsaBits === undefined) return webcrypto.subtle.generateKey(P256, true, ['sign', 'verify'])
  const rsa = {
    name: 'RSASSA-PKCS1-v1_5',
    hash: 'SHA-256',
    modulusLength: rsaBits,
    publicExponent: new Uint8Array([1, 0, 1]),
  }
  return webcrypto.subtle.generateKey(rsa, true, ['sign', 'verify'])
}

function signingAlgorithm(key: webcrypto.CryptoKey) {
  return { name: key.algorithm.name, hash: 'SHA-256' }
}

function daysFromNow(days: number): Date {
  return new Date(Date.now() + days * DAY_MS)
}

function pem(label: string, der: ArrayBuffer): string {
  return `${PemConverter.encode(der, label)}\n`
}
