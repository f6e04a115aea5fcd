import { hash, type X509Certificate } from 'node:crypto'
import type { TLSSocket } from 'node:tls'
import { alternativeNamesOf, subjectOf } from './certificate-names.ts'
import { type ClientTrust, LIST_OUT_OF_DATE, type SentChain, trustedPath } from './trust.ts'

/** A client certificate that was proved in the handshake of a connection, and what is thought of it. Immutable. */
export interface PeerCertificate {
  /** Whether it may stand for a client. Everything below is worth nothing when not. */
  readonly authorized: boolean
  /** Why not, in words for the log: they stay inside. Undefined when it is authorized. */
  readonly reason: string | undefined
  /** SHA-256 of the DER, 64 hex digits in lower case. */
  readonly thumbprintHex: string
  /** The same as `x5t#S256` writes it (RFC 8705 section 3.1). */
  readonly thumbprintBase64url: string
  /** See `subjectOf`; empty when it names nobody. */
  readonly subject: string
  /** In lower case. */
  readonly sanDns: readonly string[]
  readonly sanUri: readonly string[]
  readonly der: Buffer
  /** The authorities in force that vouch for it, the nearest first. */
  readonly authorities: readonly X509Certificate[]
}

/** Words for what OpenSSL found; another code stands for itself. */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['CERT_HAS_EXPIRED', 'it has expired'],
  ['CERT_NOT_YET_VALID', 'it is not valid yet'],
  ['CERT_REVOKED', 'it was revoked'],
  ['CERT_CHAIN_TOO_LONG', 'its chain of issuers is too long'],
  ['CERT_SIGNATURE_FAILURE', 'its signature is wrong'],
  ['CRL_HAS_EXPIRED', 'the revocation list of its issuer is out of date'],
  ['CRL_NOT_YET_VALID', 'the revocation list of its issuer is not valid yet'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'it is signed by itself'],
  ['INVALID_CA', 'its issuer may not issue certificates'],
  ['INVALID_PURPOSE', 'it is not for clients (key usage or extended key usage)'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'it leads to an authority that is not trusted'],
  ['UNABLE_TO_GET_CRL', 'its issuer is signed by itself, or has no revocation list here'],
  ['UNABLE_TO_GET_ISSUER_CERT', 'its issuer is not known'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'its issuer is not known'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'its issuer is not known'],
  // Whatever Node has no name for.
  [
    'UNSPECIFIED',
    'it breaks a rule: its issuer is no authority, its key is short, its hash is weak or the like',
  ],
])

/** More are not sent by anybody who means well. */
const MAX_INTERMEDIATES = 10

const NEVER = Number.POSITIVE_INFINITY

interface Known {
  /** What the handshake found, until something is found that no reload mends on this connection. */
  readonly met: PeerCertificate
  /** What is thought of it now. */
  readonly peer: PeerCertificate
  readonly chain: SentChain
  /** When the path that it is trusted by must be looked for again. */
  readonly goodUntilMs: number
  /** What `peer` was last held against. */
  readonly trust: ClientTrust
}

/** Null: the client has shown no certificate, and none can come later. */
const KNOWN = new WeakMap<TLSSocket, Known | null>()

/**
 * The client certificate of a connection, or undefined when the client has shown none. Worked out once per connection,
 * and again when the authorities or lists in force are other ones, or a certificate or list on its path has run out: the
 * next request on the same connection is refused then, and all after it; but a list that was only out of date may be renewed. `socket.authorized` says no more than what
 * the handshake found. Only to be called after the handshake.
 *
 * @param trust what is in force now; undefined when client certificates are not asked for
 */
export function peerOf(
  socket: TLSSocket,
  trust: ClientTrust | undefined,
  nowMs: number,
): PeerCertificate | undefined {
  if (trust === undefined) return undefined
  const known = KNOWN.get(socket)
  if (known === undefined) return meet(socket, trust, nowMs)
  if (known === null) return undefined
  if (known.trust === trust && nowMs <= known.goodUntilMs) return known.peer
  return judge(socket, { ...known, trust }, nowMs)
}

function meet(socket: TLSSocket, trust: ClientTrust, nowMs: number): PeerCertificate | undefined {
  const leaf = socket.getPeerX509Certificate()
  if (leaf === undefined) {
    KNOWN.set(socket, null)
    return undefined
  }
  const reason = socket.authorized === true ? undefined : refusalReason(socket.authorizationError)
  const names = alternativeNamesOf(leaf)
  const met: PeerCertificate = {
    authorized: reason === undefined,
    reason,
    thumbprintHex: hash('sha256', leaf.raw, 'hex'),
    thumbprintBase64url: hash('sha256', leaf.raw, 'base64url'),
    subject: subjectOf(leaf),
    sanDns: names.dns,
    sanUri: names.uri,
    der: leaf.raw,
    authorities: [],
  }
  const chain = { leaf, intermediates: intermediatesOf(leaf) }
  // The handshake may have begun before a reload that came before this.
  return judge(socket, { met, chain, trust }, nowMs)
}

function judge(
  socket: TLSSocket,
  known: Pick<Known, 'met' | 'chain' | 'trust'>,
  nowMs: number,
): PeerCertificate {
  const { met, chain, trust } = known
  const path = met.authorized ? trustedPath(chain, trust, nowMs) : undefined
  let peer = met
  if (typeof path === 'string') peer = { ...met, authorized: false, reason: path }
  else if (path !== undefined) peer = { ...met, authorities: path.authorities }
  const goodUntilMs = typeof path === 'object' ? path.goodUntilMs : NEVER
  const passes = path === LIST_OUT_OF_DATE
  KNOWN.set(socket, { met: passes ? met : peer, chain, trust, peer, goodUntilMs })
  return peer
}

/** What the client sent between its certificate and an authority. */
function intermediatesOf(leaf: X509Certificate): X509Certificate[] {
  const found: X509Certificate[] = []
  let issuer = leaf.issuerCertificate
  while (issuer !== undefined && found.length < MAX_INTERMEDIATES) {
    found.push(issuer)
    issuer = issuer.issuerCertificate
  }
  return found
}

/** Node's types call it an Error; at a server it is OpenSSL's name of the fault. */
function refusalReason(error: unknown): string {
  const code = String(error)
  return REASONS.get(code) ?? `the handshake did not take it (${code})`
}
