import type { MessageProfile } from '../../config/clients/signature-profiles.ts'
import { originForm } from '../../edge/rules/request-target.ts'
import { combinedValue } from '../../edge/syntax/field.ts'
import type { Algorithm } from '../keys/signature.ts'
import type { VerificationKey } from '../keys/verification-key.ts'
import { quote } from '../tokens/quote.ts'
import { compareDigest } from './content-digest.ts'
import {
  faultOfAge,
  OTHER_FORM,
  plain,
  type SignatureFault,
  type SignatureForm,
  type Terms,
  type UnverifiedRequest,
  type VerifiedHead,
} from './presented-signatures.ts'
import { type SignedRequest, signatureBase } from './signature-base.ts'
import { type MessageSignature, readSignatures } from './signature-fields.ts'

const DIGEST = '"content-digest"'
const NO_DIGEST = 'The signature must cover "content-digest", because the request has a body'
/** Supported values of `alg` (RFC 9421 section 6.2). */
export const REGISTERED: ReadonlyMap<string, Algorithm> = new Map([
  ['ecdsa-p256-sha256', 'ES256'],
  ['ed25519', 'EdDSA'],
  ['rsa-pss-sha512', 'PS512'],
])
/** Algorithms for signatures without `alg` (RFC 9421 section 3.3.7). */
const BY_KEY: readonly Algorithm[] = ['ES256', 'EdDSA', 'PS256']
/** Length of r in an ECDSA signature (r, s). Anyone can make (r, −s), which is as good. */
const ECDSA_R_BYTES = 32

/** HTTP Message Signatures (RFC 9421). */
export const HTTP_MESSAGE: SignatureForm = {
  headers: ['signature', 'signature-input'],
  status: 401,
  parse(request) {
    const signatures = readSignatures(request.fields)
    if (typeof signatures === 'string') return signatures
    return signatures.map((signature) => ({
      keyid: signature.keyid ?? '',
      verify: (terms) => {
        const found = judge(request, signature, terms)
        return 'reason' in found ? { fault: found } : { head: headOf(signature, found, terms.key) }
      },
    }))
  },
  /** RFC 9421 section 5.2. */
  challenge({ hasBody, ...request }, profile) {
    const challenge = ['WWW-Authenticate', 'Signature realm="api"']
    if (profile?.form !== 'rfc-9421') return challenge
    const components = new Set([...required(profile, request), ...(hasBody ? [DIGEST] : [])])
    const tag = profile.tag === undefined ? '' : `;tag="${profile.tag}"`
    return [...challenge, 'Accept-Signature', `sig=(${[...components].join(' ')});created${tag}`]
  },
}

interface Judged {
  readonly profile: MessageProfile
  readonly request: SignedRequest
  readonly algorithm: Algorithm
}

function headOf(
  signature: MessageSignature,
  { profile, request: { fields, target, uri }, algorithm }: Judged,
  { kid, key, thumbprint }: VerificationKey,
): VerifiedHead {
  const { label, covered, nonce, params, value } = signature
  let digest: string | undefined
  return {
    unique: nonce === undefined ? `value ${value.toString('base64', 0, ECDSA_R_BYTES)}` : `nonce ${nonce}`,
    faultOf(body, nowMs) {
      const stale = faultOfTimes(signature, profile, nowMs)
      if (stale !== undefined) return stale
      // The signature must cover the whole field, not one member of it.
      if (!covered.has(DIGEST)) return body.length > 0 ? plain('uncovered', NO_DIGEST) : undefined
      const compared = compareDigest(combinedValue(fields, 'content-digest') ?? '', body)
      digest = compared.digest
      return compared.fault === undefined ? undefined : { reason: 'digest_mismatch', cause: compared.fault }
    },
    signed: () => ({
      key,
      signature: {
        label,
        keyId: kid,
        thumbprint,
        algorithm,
        publicUrl: uri.slice(0, -originForm(target).length),
        digest,
        input: params,
        value: value.toString('base64'),
      },
    }),
  }
}

function judge(
  unverified: UnverifiedRequest,
  signature: MessageSignature,
  { signer: { profile }, key, nowMs }: Terms,
): SignatureFault | Judged {
  if (profile.form !== 'rfc-9421') return OTHER_FORM
  const { alg, tag, covered, value } = signature
  if (profile.tag !== undefined && tag !== profile.tag)
    return plain('uncovered', `The signature must have the tag ${quote(profile.tag)}`)
  const missing = required(profile, unverified).find((one) => !covered.has(one))
  if (missing !== undefined) return plain('uncovered', `The signature must cover ${missing}`)
  const stale = faultOfTimes(signature, profile, nowMs)
  if (stale !== undefined) return stale
  const algorithm =
    alg === undefined ? key.algorithms.find((one) => BY_KEY.includes(one)) : REGISTERED.get(alg)
  if (algorithm === undefined || !profile.algorithms.includes(alg ?? algorithm))
    return plain('unsupported', `The signature must be one of ${profile.algorithms.join(', ')}`)
  // RFC 9421 section 3.2: the key decides, not the message.
  const check = key.checks.get(algorithm)
  if (check === undefined) return { reason: 'mismatch', cause: `the key is not for ${algorithm}` }
  let cause = 'Host is not the host of a URL in dpop.publicUrls'
  for (const request of unverified.requests) {
    const { base, fault } = signatureBase(request, signature)
    if (fault === undefined && check({ signed: base, signature: value }))
      return { profile, request, algorithm }
    cause = fault ?? 'the signed components differ, or another key signed them'
  }
  return { reason: 'mismatch', cause }
}

/** Components that must be covered, except the digest of the body, because the body is not there yet. */
function required(
  profile: MessageProfile,
  { fields, keyHeader }: Pick<UnverifiedRequest, 'fields' | 'keyHeader'>,
): readonly string[] {
  const whenSent = keyHeader === undefined ? profile.whenSent : [...profile.whenSent, keyHeader]
  const sent = whenSent.filter((name) => fields.some(({ lower }) => lower === name))
  return [...profile.components.filter((one) => one !== DIGEST), ...sent.map((name) => `"${name}"`)]
}

function faultOfTimes(
  { created, expires }: MessageSignature,
  profile: MessageProfile,
  nowMs: number,
): SignatureFault | undefined {
  if (created === undefined) return plain('stale', 'The signature must have the parameter created')
  const fault = faultOfAge(created * 1000, profile, nowMs)
  if (fault !== undefined) return fault
  return expires !== undefined && expires * 1000 <= nowMs
    ? plain('stale', 'The signature has expired')
    : undefined
}
