import { hash, type X509Certificate } from 'node:crypto'
import type { TLSSocket } from 'node:tls'
import { alternativeNamesOf, subjectOf } from './certificate-names.ts'
import { type ClientTrust, LIST_OUT_OF_DATE, type SentChain, trustedPath } from './trust.ts'

export interface PeerCertificate {
  /** When false, no name below may be trusted. */
  readonly authorized: boolean
  readonly reason: string | undefined
  /** A new connection may accept the certificate; this connection never will. */
  readonly mayPassAnew?: true
  /** Refused only because `tls.clientOcsp` is hard and the responder gives no good answer. */
  readonly isUnchecked?: true
  /** SHA-256 of the DER, in lower case. */
  readonly thumbprintHex: string
  /** As `x5t#S256` (RFC 8705 section 3.1). */
  readonly thumbprintBase64url: string
  readonly subject: string
  readonly sanDns: readonly string[]
  readonly sanUri: readonly string[]
  readonly der: Buffer
  /** Up to a trusted root, nearest first. */
  readonly authorities: readonly X509Certificate[]
}

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
  ['UNABLE_TO_GET_CRL', 'its issuer is signed by itself, or has no revocation list here that covers it'],
  ['UNABLE_TO_GET_ISSUER_CERT', 'its issuer is not known'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'its issuer is not known'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'its issuer is not known'],
  // Every fault that Node has no name for.
  [
    'UNSPECIFIED',
    'it breaks a rule: its issuer is no authority, its key is short, its hash is weak or the like',
  ],
])

/** Faults that pass by themselves: a list is renewed, or something becomes valid. */
const PASSING: ReadonlySet<string> = new Set(['CERT_NOT_YET_VALID', 'CRL_HAS_EXPIRED', 'CRL_NOT_YET_VALID'])
/** No honest client sends more. */
const MAX_INTERMEDIATES = 10

interface CachedPeer {
  /** The verdict of the handshake; replaced by a later refusal that no reload can undo. */
  readonly base: PeerCertificate
  readonly peer: PeerCertificate
  readonly chain: SentChain
  readonly goodUntilMs: number
  readonly trust: ClientTrust
}

/** Verdicts by connection. No `peer`: the client sent no certificate, and none can come later. */
const CACHE = new WeakMap<
  TLSSocket,
  CachedPeer | (Pick<CachedPeer, 'trust'> & { readonly peer: undefined })
>()

/** True when only a new connection can prove the client; without a certificate, once there are other authorities. */
export function mayPassAnew(socket: TLSSocket, trust: ClientTrust | undefined): boolean {
  const cached = CACHE.get(socket)
  if (cached === undefined || trust === undefined) return false
  if (cached.peer !== undefined) return cached.peer.mayPassAnew === true
  if (cached.trust === trust) return false
  if (namesOf(cached.trust) !== namesOf(trust)) return true
  CACHE.set(socket, { peer: undefined, trust })
  return false
}

/** Identifies the authorities, by whose names clients choose a certificate. */
function namesOf({ authorities }: ClientTrust): string {
  return authorities.map(({ fingerprint256 }) => fingerprint256).join()
}

/**
 * The verdict on a client certificate is renewed after a reload of authorities or lists, or when a certificate or list
 * on the path has expired. A refusal is final for the connection, unless a list went out of date after the handshake.
 */
export function peerOf(
  socket: TLSSocket,
  trust: ClientTrust | undefined,
  nowMs: number,
): PeerCertificate | undefined {
  if (trust === undefined) return undefined
  const cached = CACHE.get(socket)
  if (cached === undefined) return firstVerdict(socket, trust, nowMs)
  if (cached.peer === undefined) return undefined
  if (cached.trust === trust && nowMs <= cached.goodUntilMs) return cached.peer
  // After a reload, a new handshake may accept what the first one refused.
  const base = cached.base.authorized ? cached.base : { ...cached.base, mayPassAnew: true as const }
  return verdict(socket, { ...cached, base, trust }, nowMs)
}

function firstVerdict(socket: TLSSocket, trust: ClientTrust, nowMs: number): PeerCertificate | undefined {
  const leaf = socket.getPeerX509Certificate()
  if (leaf === undefined) {
    CACHE.set(socket, { peer: undefined, trust })
    return undefined
  }
  // A code of OpenSSL, though Node's types say Error.
  const code = socket.authorized === true ? undefined : String(socket.authorizationError)
  const reason = code && (REASONS.get(code) ?? `the handshake did not accept it (${code})`)
  const names = alternativeNamesOf(leaf)
  const base: PeerCertificate = {
    authorized: reason === undefined,
    reason,
    ...(code !== undefined && PASSING.has(code) && { mayPassAnew: true }),
    thumbprintHex: hash('sha256', leaf.raw, 'hex'),
    thumbprintBase64url: hash('sha256', leaf.raw, 'base64url'),
    subject: subjectOf(leaf),
    sanDns: names.dns,
    sanUri: names.uri,
    der: leaf.raw,
    authorities: [],
  }
  const chain = { leaf, intermediates: intermediatesOf(leaf) }
  // The authorities may have been reloaded since the handshake began.
  return verdict(socket, { base, chain, trust }, nowMs)
}

function verdict(
  socket: TLSSocket,
  cached: Pick<CachedPeer, 'base' | 'chain' | 'trust'>,
  nowMs: number,
): PeerCertificate {
  const { base, chain, trust } = cached
  const path = base.authorized ? trustedPath(chain, trust, nowMs) : undefined
  const isTemporary = path === LIST_OUT_OF_DATE
  let peer = base
  if (typeof path === 'string')
    peer = { ...base, authorized: false, reason: path, ...(!isTemporary && { mayPassAnew: true }) }
  else if (path !== undefined) peer = { ...base, authorities: path.authorities }
  const goodUntilMs = typeof path === 'object' ? path.goodUntilMs : Number.POSITIVE_INFINITY
  CACHE.set(socket, { base: isTemporary ? base : peer, chain, trust, peer, goodUntilMs })
  return peer
}

function intermediatesOf(leaf: X509Certificate): X509Certificate[] {
  const found: X509Certificate[] = []
  let issuer = leaf.issuerCertificate
  while (issuer !== undefined && found.length < MAX_INTERMEDIATES) {
    found.push(issuer)
    issuer = issuer.issuerCertificate
  }
  return found
}
