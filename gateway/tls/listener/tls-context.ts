import { constants, hash, type KeyObject, type X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions, type TlsOptions } from 'node:tls'
import type { Parsed } from '../../config/faults.ts'
import type { Dated } from '../../config/rules/certificate-times.ts'
import { parseTicketSecret } from '../../config/secret-line.ts'
import type { Settings, TlsSettings } from '../../config/settings.ts'
import { messageOf } from '../../terminal/printable.ts'
import { subjectOf } from '../clients/certificate-names.ts'
import { readAuthorities, readRevocationLists } from '../clients/client-authorities.ts'
import { areIndependent } from '../clients/client-issuers.ts'
import type { ClientTrust } from '../clients/trust.ts'
import { type Chain, mustStaple } from '../stapling/stapler.ts'
import { readPem } from './pem.ts'
import {
  checkServerCertificate,
  Findings,
  readBlocks,
  readCertificate,
  readKey,
} from './server-certificate.ts'
import { type DayKey, firstDayKey } from './ticket-keys.ts'

export type TlsFiles = Omit<TlsSettings, 'port' | 'ocspFetch'> & Partial<Pick<TlsSettings, 'ocspFetch'>>

export interface TlsTexts {
  readonly cert: string
  readonly key: string
  readonly clientCa: string | undefined
  readonly clientCrl: string | undefined
  /** Not PEM. */
  readonly ticketKey?: string | undefined
}

/** Immutable; replaced at a reload. */
export interface TlsMaterial {
  /** For `server.setSecureContext`. Holds the private key: never log it. */
  readonly secure: SecureContextOptions
  /** Undefined: client certificates are not requested. */
  readonly trust: ClientTrust | undefined
  /** Set when other gateways share the keys of session tickets. */
  readonly sharedTickets: DayKey | undefined
  readonly chain: Chain
  readonly summary: TlsSummary
  readonly warnings: readonly string[]
  readonly dated: readonly Dated[]
}

interface TlsSummary {
  readonly certificate: {
    readonly subject: string
    /** SHA-256 of the DER, in hex. */
    readonly thumbprint: string
    readonly notAfterSeconds: number
  }
  readonly clientAuthorities: readonly string[]
  readonly revoked: number
  /** Equal in gateways that share the keys of session tickets. */
  readonly ticketKeyId?: string
}

/** The suites of TLS 1.3, and those that RFC 9325 section 4.2 recommends for TLS 1.2. Security level 2 is 112 bits. */
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

/** A post-quantum hybrid first, then the groups of RFC 9325 section 4.2.1. */
const GROUPS = 'X25519MLKEM768:X25519:P-256:P-384'
/** Life of a session after its full handshake. It also ends with its UTC day. A resumption gives no new ticket. */
const SESSION_SECONDS = 7200

export function parseTls(files: TlsFiles, texts: TlsTexts, nowMs: number): Parsed<TlsMaterial> {
  const findings = new Findings()
  const server = readServer(files, texts, { nowMs, findings })
  const trust = readTrust(files, texts, { nowMs, findings })
  const sharedTickets = readTickets(files, texts, findings)
  if (findings.faults.length > 0 || server === undefined) return { faults: findings.faults }
  const secure = secureOptions(server.key, texts)
  try {
    createSecureContext(secure)
  } catch (error) {
    const reason = `OpenSSL refuses it: ${messageOf(error)}`
    return { faults: [{ file: files.certFile, path: '$', reason }] }
  }
  const { chain } = server
  const summary = summaryOf(chain[0], { trust, sharedTickets })
  const { warnings, dated } = findings
  return { value: { secure, trust, sharedTickets, chain, summary, warnings, dated } }
}

interface Check {
  readonly nowMs: number
  readonly findings: Findings
}

function readServer(files: TlsFiles, texts: TlsTexts, { nowMs, findings }: Check) {
  const { certFile, keyFile, ocspFile, ocspFetch = false } = files
  const certificates = readBlocks(texts.cert, { file: certFile, findings }, readCertificate)
  const key = readKey(texts.key, { file: keyFile, findings })
  const [leaf, ...others] = certificates ?? []
  if (leaf === undefined || key === undefined) return undefined
  const chain: Chain = [leaf, ...others]
  checkServerCertificate(chain, { certFile, keyFile, key, nowMs, findings })
  if (ocspFile === undefined && !ocspFetch && mustStaple(leaf)) {
    findings.warn(
      `${certFile}: the certificate demands an OCSP response (Must-Staple), and tls has neither ocspFile nor ocspFetch: clients will refuse it`,
    )
  }
  return { chain, key }
}

function readTrust(files: TlsFiles, texts: TlsTexts, check: Check): ClientTrust | undefined {
  const { clientCaFile, clientCrlFile } = files
  if (clientCaFile === undefined || texts.clientCa === undefined) return undefined
  const authorities = readAuthorities(texts.clientCa, { ...check, file: clientCaFile })
  const lists =
    clientCrlFile === undefined || texts.clientCrl === undefined
      ? []
      : readRevocationLists(texts.clientCrl, {
          ...check,
          file: clientCrlFile,
          authorities: authorities ?? [],
        })
  return authorities && lists && { authorities, lists, independent: areIndependent(authorities) }
}

function readTickets({ ticketKeyFile: file }: TlsFiles, { ticketKey }: TlsTexts, findings: Findings) {
  if (file === undefined || ticketKey === undefined) return undefined
  const { value, faults = [] } = parseTicketSecret(file, ticketKey)
  for (const fault of faults) findings.fault(fault)
  return value === undefined ? undefined : firstDayKey(value)
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
    // Equal in all processes: otherwise only the process that began a session can resume it.
    sessionIdContext: 'countersign',
    sessionTimeout: SESSION_SECONDS,
  }
  if (clientCa === undefined) return options
  options.ca = clientCa
  // A resumed session would keep the verdict of its first handshake, despite later revocations and expiry.
  options.secureOptions = (options.secureOptions ?? 0) | constants.SSL_OP_NO_TICKET
  if (clientCrl !== undefined) options.crl = blocksOf(clientCrl)
  return options
}

/** Node reads only one revocation list per string. */
function blocksOf(pem: string): string[] {
  const blocks = readPem(pem)
  return typeof blocks === 'string' ? [] : blocks.map(({ text }) => text)
}

function summaryOf(
  leaf: X509Certificate,
  { trust, sharedTickets }: Pick<TlsMaterial, 'trust' | 'sharedTickets'>,
): TlsSummary {
  const { authorities = [], lists = [] } = trust ?? {}
  return {
    certificate: {
      subject: subjectOf(leaf),
      thumbprint: hash('sha256', leaf.raw, 'hex'),
      notAfterSeconds: Math.floor(leaf.validToDate.getTime() / 1000),
    },
    clientAuthorities: authorities.map(subjectOf),
    revoked: lists.reduce((sum, list) => sum + list.serials.size, 0),
    ...(sharedTickets && { ticketKeyId: hash('sha256', sharedTickets.key, 'hex').slice(0, 16) }),
  }
}

/** Client certificates are not required: `peerOf` judges them, so that a bad one gets an HTTP response. */
export function listenerOptions(
  { secure, trust }: TlsMaterial,
  { handshakeMs, http2 }: { readonly handshakeMs: number; readonly http2: Settings['http2'] },
): TlsOptions {
  return {
    ...secure,
    requestCert: trust !== undefined,
    rejectUnauthorized: false,
    ALPNProtocols: http2 === false ? ['http/1.1'] : ['h2', 'http/1.1'],
    handshakeTimeout: handshakeMs,
    // A client may close its half after the request and still gets the response.
    allowHalfOpen: true,
  }
}
