import type { KeyObject } from 'node:crypto'
import { MAX_AGE_MS, type SignatureProfile } from '../../config/clients/signature-profiles.ts'
import type { Field } from '../../edge/syntax/field.ts'
import type { Principal } from '../../principal.ts'
import type { KeySet } from '../keys/jwks.ts'
import type { VerificationKey } from '../keys/verification-key.ts'
import { quote } from '../tokens/quote.ts'
import type { OrFault } from '../tokens/verification.ts'
import type { SignedRequest } from './signature-base.ts'

export interface Signer {
  readonly principal: Principal
  readonly profile: SignatureProfile
  readonly keys: KeySet
  /** Order for keys of the same name: clients with a file of keys first, then as in clients.json. */
  readonly rank: number
}

export interface KeyOwner {
  readonly signer: Signer
  readonly key: VerificationKey
  /** Another client that publishes the same key. */
  readonly rival: Signer | undefined
}

/** A request as it was received. */
export interface UnverifiedRequest {
  readonly method: string
  /** Target of the request line, or `:path`. */
  readonly target: string
  readonly fields: readonly Field[]
  /** Header of the row's idempotency key, in lower case. A request that has it must sign it. */
  readonly keyHeader: string | undefined
  /** The request at each address by which clients may know this gateway. */
  readonly requests: readonly SignedRequest[]
}

export interface SignatureForm {
  /** In lower case. One of them is enough to mark a signature of this form. */
  readonly headers: readonly string[]
  /** The status of refusals: 401, or what the standard wants instead. */
  readonly status: number
  /** Reads the signatures, of which one must be good. A text says what is malformed. */
  parse(request: UnverifiedRequest): readonly PresentedSignature[] | string
  /** Headers that tell a client what it must sign. @param profile undefined: the client is not known */
  challenge(request: Wanted, profile: SignatureProfile | undefined): readonly string[]
}

interface Wanted extends Pick<UnverifiedRequest, 'fields' | 'keyHeader'> {
  readonly hasBody: boolean
}

export interface PresentedSignature {
  readonly keyid: string
  /** Verifies everything but the body. Never throws. */
  verify(terms: Terms): HeadVerification
}

export type HeadVerification = OrFault<{ readonly head: VerifiedHead }, SignatureFault>

export interface Terms extends Pick<KeyOwner, 'signer' | 'key'> {
  readonly nowMs: number
}

export interface VerifiedHead {
  /** Differs between any two messages of one client. */
  readonly unique: string
  /** Never throws. @param nowMs the age is checked again, because replays may be forgotten while a slow body comes */
  faultOf(body: Buffer, nowMs: number): SignatureFault | undefined
  /** Facts for the audit trail, once there is no fault. Undefined: the trail does not record this form. */
  readonly signed?: (body: Buffer) => SignedBy
}

export interface SignedBy {
  readonly signature: SignatureFacts
  readonly key: KeyObject
}

/** A good signature, with what its base needs beside the message. The record has these members in this order. */
export interface SignatureFacts {
  /** Label (RFC 9421), or the header of a detached JWS. */
  readonly label: string
  readonly keyId: string
  /** Thumbprint of the key (RFC 7638). */
  readonly thumbprint: string
  /** As JOSE names it. */
  readonly algorithm: string
  /** URL before the target, as the client sees it. Empty where the target is not signed. */
  readonly publicUrl: string
  /** As in Content-Digest. Undefined: there is no body. */
  readonly digest: string | undefined
  /** `@signature-params`, canonical, or the encoded header of a JWS. */
  readonly input: string
  /** Base64. */
  readonly value: string
}

export interface VerifiedSignature {
  readonly signer: Signer
  readonly head: VerifiedHead
}

export interface SignatureFault {
  readonly reason:
    | 'malformed'
    | 'uncovered'
    | 'stale'
    | 'unsupported'
    | 'unknown_key'
    | 'mismatch'
    | 'digest_mismatch'
  /** A sentence for the client, without a full stop. Undefined: the client learns only that its signature is bad. */
  readonly detail?: string
  /** For the log. */
  readonly cause: string
  readonly signer?: Signer | undefined
}

/** How far the clock of a client may be ahead. */
const AHEAD_MS = 10_000
/** How long a signature can be accepted, plus one second: `created` has no fractions. */
export const SIGNATURE_LIFETIME_MS = MAX_AGE_MS + AHEAD_MS + 1000

/** How many keys of the same name are tried for one signature. */
const MAX_TRIED = 8
const SHARED_NAME = plain('mismatch', 'Too many clients have a key of this name: give yours another kid')

interface Presented {
  /** At least one. */
  readonly signatures: readonly PresentedSignature[]
  readonly ownersOf: (keyid: string) => readonly KeyOwner[]
  /** The only client that may have signed. Undefined: any. */
  readonly known: Signer | undefined
  readonly nowMs: number
}

/** Tries every signature, because some may be meant for other receivers. Never throws. */
export function verifyMessage(
  presented: Presented,
): OrFault<{ readonly verified: readonly VerifiedSignature[] }, SignatureFault> {
  const verified: VerifiedSignature[] = []
  const faults: SignatureFault[] = []
  for (const signature of presented.signatures) {
    const owners = presented.ownersOf(signature.keyid)
    if (owners.length === 0) faults.push(unknownKey(presented, signature))
    let tried = 0
    for (const owner of owners) {
      if (tried === MAX_TRIED) {
        faults.unshift(SHARED_NAME)
        break
      }
      const { head, fault } = verifySignature(signature, owner, presented.nowMs)
      if (head !== undefined) verified.push({ signer: owner.signer, head })
      else faults.push({ ...fault, signer: owner.signer })
      // Other faults cost no verification.
      if (fault === undefined || fault.reason === 'mismatch') tried++
    }
  }
  if (verified.length > 0) return { verified }
  // A fault of a signature with a known key tells more.
  const fault = faults.find(({ reason }) => reason !== 'unknown_key') ?? faults[0]
  return { fault: fault as SignatureFault }
}

function unknownKey({ known }: Presented, { keyid }: PresentedSignature): SignatureFault {
  const owner = known === undefined ? 'a client' : quote(known.principal.client)
  return { reason: 'unknown_key', cause: `keyid ${quote(keyid)} names no key of ${owner}`, signer: known }
}

function verifySignature(
  signature: PresentedSignature,
  { signer, key, rival }: KeyOwner,
  nowMs: number,
): HeadVerification {
  if (rival === undefined) return signature.verify({ signer, key, nowMs })
  // A client that publishes the key of another client must not be taken for that client.
  const names = [signer, rival].map(({ principal }) => quote(principal.client)).join(' and ')
  return { fault: { reason: 'mismatch', cause: `${names} publish the same key` } }
}

/** A fault that the client is told. */
export function plain(reason: SignatureFault['reason'], detail: string): SignatureFault {
  return { reason, detail, cause: detail }
}

export const OTHER_FORM: SignatureFault = plain(
  'unsupported',
  'The client signs its requests in another form',
)

export function faultOfAge(
  createdMs: number,
  { maxAgeMs }: SignatureProfile,
  nowMs: number,
): SignatureFault | undefined {
  const ageMs = nowMs - createdMs
  const seconds = Math.ceil(Math.abs(ageMs) / 1000)
  if (ageMs > maxAgeMs)
    return plain('stale', `The signature is ${seconds} s old; ${maxAgeMs / 1000} s are allowed`)
  if (ageMs >= -AHEAD_MS) return undefined
  return plain('stale', `The signature is ${seconds} s ahead of our clock; ${AHEAD_MS / 1000} s are allowed`)
}
