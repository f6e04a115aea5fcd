import { constants, hash, type KeyObject, type X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions, type TlsOptions } from 'node:tls'
import type { Parsed } from '../../config/faults.ts'
import type { TlsSettings } from '../../config/settings.ts'
import { subjectOf } from '../clients/certificate-names.ts'
import { readAuthorities, readRevocationLists } from '../clients/client-authorities.ts'
import { areSeveral } from '../clients/client-issuers.ts'
import type { ClientTrust } from '../clients/trust.ts'
import { Findings } from './findings.ts'
import { readPem } from './pem.ts'
import { checkServerCertificate, readCertificates, readKey } from './server-certificate.ts'

/** As the operator named them. */
export type TlsFiles = Omit<TlsSettings, 'port'>

/** What stands in them, in PEM. */
export interface TlsTexts {
  readonly cert: string
  readonly key: string
  readonly clientCa: string | undefined
  readonly clientCrl: string | undefined
}

/** Everything the HTTPS listener is made of; a reload makes another. Immutable. */
export interface TlsMaterial {
  /** What `server.setSecureContext` takes. Holds the private key: not for logs. */
  readonly secure: SecureContextOptions
  /** What `peerOf` takes; undefined when clients are not asked for certificates. */
  readonly trust: ClientTrust | undefined
  readonly summary: TlsSummary
  /** What can hardly be meant but can be served with, in one sentence each. */
  readonly warnings: readonly string[]
}

/** What may be told of the material: to the log and the audit trail. */
export interface TlsSummary {
  readonly certificate: {
    readonly subject: string
    /** SHA-256 of the DER, in hex. */
    readonly thumbprint: string
    /** `gateway_tls_certificate_expiry_timestamp_seconds`. */
    readonly notAfterSeconds: number
  }
  readonly clientAuthorities: readonly string[]
  /** How many certificates the revocation lists name. */
  readonly revoked: number
}

/** All that RFC 9325 section 4.2 recommends for TLS 1.2, and TLS 1.3's own; security level 2 asks for 112 bits. */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  '@SECLEVEL=2',
].join(':')

/** A hybrid with a post-quantum part first; those of RFC 9325 section 4.2.1 for whoever does not know it. */
const GROUPS = 'X25519MLKEM768:X25519:P-256:P-384'

/** Makes the listener's material of what stands in the files, or names every fault of all of them at once. */
export function parseTls(files: TlsFiles, texts: TlsTexts, nowMs: number): Parsed<TlsMaterial> {
  const findings = new Findings()
  const server = readServer(files, texts, { nowMs, findings })
  const trust = readTrust(files, texts, { nowMs, findings })
  if (findings.faults.length > 0 || server === undefined) return { faults: findings.faults }
  const secure = secureOptions(server.key, texts)
  try {
    createSecureContext(secure)
  } catch (error) {
    const reason = `OpenSSL does not take it: ${error instanceof Error ? error.message : String(error)}`
    return { faults: [{ file: files.certFile, path: '$', reason }] }
  }
  return { value: { secure, trust, summary: summaryOf(server.leaf, trust), warnings: findings.warnings } }
}

interface Ground {
  readonly nowMs: number
  readonly findings: Findings
}

function readServer({ certFile, keyFile }: TlsFiles, texts: TlsTexts, { nowMs, findings }: Ground) {
  const chain = readCertificates(texts.cert, { file: certFile, findings })
  const key = readKey(texts.key, { file: keyFile, findings })
  const [leaf, ...others] = chain ?? []
  if (leaf === undefined || key === undefined) return undefined
  checkServerCertificate([leaf, ...others], { certFile, keyFile, key, nowMs, findings })
  return { leaf, key }
}

function readTrust(files: TlsFiles, texts: TlsTexts, ground: Ground): ClientTrust | undefined {
  const { clientCaFile, clientCrlFile } = files
  if (clientCaFile === undefined || texts.clientCa === undefined) return undefined
  const authorities = readAuthorities(texts.clientCa, { ...ground, file: clientCaFile })
  if (clientCrlFile === undefined || texts.clientCrl === undefined) {
    return authorities && { authorities, lists: [], several: areSeveral(authorities) }
  }
  const place = { ...ground, file: clientCrlFile, authorities: authorities ?? [] }
  const lists = readRevocationLists(texts.clientCrl, place)
  return authorities && lists && { authorities, lists, several: areSeveral(authorities) }
}

function secureOptions(key: KeyObject, texts: TlsTexts): SecureContextOptions {
  const { cert, clientCa, clientCrl } = texts
  const options: SecureContextOptions = {
    cert,
    key: key.export({ type: 'pkcs8', format: 'pem' }),
    minVersion: 'TLSv1.2',
    maxVersion: 'TLSv1.3',
    ciphers: CIPHERS,
    ecdhCurve: GROUPS,
    honorCipherOrder: true,
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_COMPRESSION,
  }
  if (clientCa === undefined) return options
  options.ca = clientCa
  // A resumed session carries the verdict of its first handshake past every list and every expiry since.
  options.secureOptions = (options.secureOptions ?? 0) | constants.SSL_OP_NO_TICKET
  if (clientCrl !== undefined) options.crl = blocksOf(clientCrl)
  return options
}

/** Node promises to read one list of a text, and several of a list of texts. */
function blocksOf(pem: string): string[] {
  const blocks = readPem(pem)
  return typeof blocks === 'string' ? [] : blocks.map(({ text }) => text)
}

function summaryOf(leaf: X509Certificate, trust: ClientTrust | undefined): TlsSummary {
  const { authorities = [], lists = [] } = trust ?? {}
  return {
    certificate: {
      subject: subjectOf(leaf),
      thumbprint: hash('sha256', leaf.raw, 'hex'),
      notAfterSeconds: Math.floor(leaf.validToDate.getTime() / 1000),
    },
    clientAuthorities: authorities.map(subjectOf),
    revoked: lists.reduce((sum, list) => sum + list.serials.size, 0),
  }
}

/**
 * What `https.createServer` takes besides its options for HTTP. A client certificate is asked for when an authority is
 * named, never demanded: what it is worth is for `peerOf` to say, and a bad one gets an answer.
 */
export function listenerOptions({ secure, trust }: TlsMaterial, handshakeMs: number): TlsOptions {
  return {
    ...secure,
    requestCert: trust !== undefined,
    rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: handshakeMs,
    // As a plain HTTP server has it: a client may close its half when it has asked, and still gets its answer.
    allowHalfOpen: true,
  }
}
