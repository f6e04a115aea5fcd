import { MAX_AGE_MS, type SignatureProfile } from '../../config/clients/signature-profiles.ts'
import type { Principal } from '../../principal.ts'
import type { KeySet } from '../keys/jwks.ts'
import type { Algorithm } from '../keys/signature.ts'
import type { VerificationKey } from '../keys/verification-key.ts'
import { quote } from '../tokens/quote.ts'
import type { OrFault } from '../tokens/verification.ts'
import { type SignedRequest, signatureBase } from './signature-base.ts'
import type { MessageSignature } from './signature-fields.ts'

/** A client that signs its requests. */
export interface Signer {
  readonly principal: Principal
  readonly profile: SignatureProfile
  readonly keys: KeySet
}

export interface VerifiedSignature {
  readonly signer: Signer
  readonly signature: MessageSignature
}

export interface SignatureFault {
  readonly reason: 'uncovered' | 'stale' | 'unsupported' | 'unknown_key' | 'mismatch'
  /** A sentence for the client, without a full stop; undefined: only that it is not valid. */
  readonly detail?: string
  /** For the log. */
  readonly cause: string
  /** Undefined where no client is known. */
  readonly signer?: Signer | undefined
}

/** How far the clock of a client may be ahead. */
const AHEAD_MS = 10_000
/** From the first to the last moment at which a signature can be accepted; `created` has no fractions. */
export const SIGNATURE_LIFETIME_MS = MAX_AGE_MS + AHEAD_MS + 1000
const DIGEST = '"content-digest"'
/** The algorithms with an `alg` of their own (RFC 9421 section 6.2). */
const REGISTERED: ReadonlyMap<string, Algorithm> = new Map([
  ['ecdsa-p256-sha256', 'ES256'],
  ['ed25519', 'EdDSA'],
  ['rsa-pss-sha512', 'PS512'],
])
/** Chosen by the key alone (RFC 9421 section 3.3.7). */
const BY_KEY: readonly Algorithm[] = ['ES256', 'EdDSA', 'PS256']

interface Presented {
  /** As each of the addresses that clients may know this gateway by. */
  readonly requests: readonly SignedRequest[]
  /** At least one. */
  readonly signatures: readonly MessageSignature[]
  /** The clients of whom one has signed. */
  readonly signers: readonly Signer[]
  readonly nowMs: number
}

/** Verifies until one signature is good: others may be for somebody else. Compares no digest. Never throws. */
export function verifyMessage(
  presented: Presented,
): OrFault<{ readonly verified: VerifiedSignature }, SignatureFault> {
  let fault: SignatureFault | undefined
  for (const signature of presented.signatures) {
    const outcome = verifySignature(presented, signature)
    if ('signature' in outcome) return { verified: outcome }
    // What is said of a signature with a known key tells more.
    if (fault === undefined || fault.reason === 'unknown_key') fault = outcome
  }
  return { fault: fault as SignatureFault }
}

function verifySignature(
  { requests, signers, nowMs }: Presented,
  signature: MessageSignature,
): VerifiedSignature | SignatureFault {
  const { keyid = '' } = signature
  const owners = signers.flatMap((signer) => {
    const key = signer.keys.find(keyid)
    return key === undefined ? [] : [{ signer, key }]
  })
  const [only] = signers.length === 1 ? signers : []
  const cause = `keyid ${quote(keyid)} names no key of ${only ? quote(only.principal.client) : 'a client'}`
  let fault: SignatureFault = { reason: 'unknown_key', cause, signer: only }
  for (const { signer, key } of owners) {
    const found = faultOf(requests, signature, { signer, key, nowMs })
    // Whoever publishes the key of another must not get what the other has signed.
    const other = owners.find((one) => one.signer !== signer && one.key.key.equals(key.key))
    if (found === undefined && other === undefined) return { signer, signature }
    const names = [signer, other?.signer].map((one) => quote(one?.principal.client)).join(' and ')
    fault = { ...(found ?? { reason: 'mismatch', cause: `${names} publish the same key` }), signer }
  }
  return fault
}

interface Terms {
  readonly signer: Signer
  readonly key: VerificationKey
  readonly nowMs: number
}

function faultOf(
  requests: readonly SignedRequest[],
  signature: MessageSignature,
  { signer: { profile }, key, nowMs }: Terms,
): SignatureFault | undefined {
  const { alg, tag, covered, value } = signature
  if (profile.tag !== undefined && tag !== profile.tag)
    return plain('uncovered', `The signature must have the tag ${quote(profile.tag)}`)
  const missing = required(profile, requests[0]?.fields ?? []).find((one) => !covered.has(one))
  if (missing !== undefined) return plain('uncovered', `The signature must cover ${missing}`)
  const stale = faultOfTimes(signature, profile, nowMs)
  if (stale !== undefined) return plain('stale', stale)
  const algorithm =
    alg === undefined ? key.algorithms.find((one) => BY_KEY.includes(one)) : REGISTERED.get(alg)
  if (algorithm === undefined || !profile.algorithms.includes(alg ?? algorithm))
    return plain('unsupported', `The signature must be one of ${profile.algorithms.join(', ')}`)
  // RFC 9421 section 3.2: the key decides, not the message.
  const check = key.checks.get(algorithm)
  if (check === undefined) return { reason: 'mismatch', cause: `the key is not for ${algorithm}` }
  let cause = 'Host is not that of one of dpop.publicUrls'
  for (const request of requests) {
    const { base, fault } = signatureBase(request, signature)
    if (fault === undefined && check({ signed: base, signature: value })) return undefined
    cause = fault ?? 'it is not of these components, or not by this key'
  }
  return { reason: 'mismatch', cause }
}

function plain(reason: SignatureFault['reason'], detail: string): SignatureFault {
  return { reason, detail, cause: detail }
}

/** What must be covered, but for the digest of a body: that is not known yet. */
function required(profile: SignatureProfile, fields: SignedRequest['fields']): readonly string[] {
  const sent = profile.whenSent.filter((name) => fields.some(({ lower }) => lower === name))
  return [...profile.components.filter((one) => one !== DIGEST), ...sent.map((name) => `"${name}"`)]
}

function faultOfTimes(
  { created, expires }: MessageSignature,
  { maxAgeMs }: SignatureProfile,
  nowMs: number,
): string | undefined {
  if (created === undefined) return 'The signature must have the parameter created'
  const ageMs = nowMs - created * 1000
  if (ageMs > maxAgeMs) return `The signature is older than ${maxAgeMs / 1000} seconds`
  if (ageMs < -AHEAD_MS) return 'The signature was created in the future'
  return expires !== undefined && expires * 1000 <= nowMs ? 'The signature has expired' : undefined
}

/** Covers the whole digest of a body, not one of its members. */
export function coversDigest({ covered }: MessageSignature): boolean {
  return covered.has(DIGEST)
}

/** Half of an ECDSA signature, because anyone can make of (r, s) the signature (r, −s) that is as good. */
const ECDSA_R_BYTES = 32

/** Another message of the client has another one. */
export function replayKey({ signature: { nonce, value }, signer }: VerifiedSignature): string {
  const known = nonce === undefined ? `value ${value.toString('base64', 0, ECDSA_R_BYTES)}` : `nonce ${nonce}`
  return `${signer.principal.client}\0${known}`
}

/** What a signature must have, for Accept-Signature (RFC 9421 section 5.1). @param hasBody the request has one */
export function acceptSignature(
  profile: SignatureProfile,
  fields: SignedRequest['fields'],
  hasBody: boolean,
): string {
  const components = [...required(profile, fields), ...(hasBody ? [DIGEST] : [])]
  const tag = profile.tag === undefined ? '' : `;tag="${profile.tag}"`
  return `sig=(${components.join(' ')});created${tag}`
}
