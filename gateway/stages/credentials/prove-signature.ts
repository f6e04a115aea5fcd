import type { ReplayFault } from '../../auth/replay.ts'
import { digestFault } from '../../auth/signatures/content-digest.ts'
import {
  acceptSignature,
  coversDigest,
  replayKey,
  type SignatureFault,
  type Signer,
  type VerifiedSignature,
  verifyMessage,
} from '../../auth/signatures/message-verifier.ts'
import type { SignedRequest } from '../../auth/signatures/signature-base.ts'
import { combinedValue, readSignatures } from '../../auth/signatures/signature-fields.ts'
import { quote } from '../../auth/tokens/quote.ts'
import { originForm } from '../../edge/rules/request-target.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { type Refusal, type RefusalCode, refusal } from '../../refusals.ts'
import { readWholeBody } from '../body/whole-body.ts'
import { countGuess, refuseGuessing } from './throttle-guesses.ts'

type Outcome = Refusal | undefined | Promise<Refusal | undefined>

const CHALLENGE = ['WWW-Authenticate', 'Signature realm="api"']
const NO_BODY = Buffer.alloc(0)
const NO_DIGEST = 'The signature must cover "content-digest", because the request has a body'
const REPLAYED = 'The signature was accepted before: sign each request anew'

export function presentsSignature({ req }: Exchange): boolean {
  return req.fields.some(({ lower }) => lower === 'signature' || lower === 'signature-input')
}

/** Verifies that the client of the proved caller has signed the request, too. Writes `bufferedBody`. */
export function proveSigner(gateway: Gateway, exchange: Exchange): Outcome {
  const client = exchange.principal?.client
  const signer = gateway.signers.of(client)
  if (signer !== undefined) return proveSignature(gateway, exchange, [signer])
  const cause = `the client ${quote(client)} has no "signature" in clients.json`
  return unproved(gateway, exchange, { outcome: 'unknown_client', cause })
}

/**
 * Verifies a signature of the request (RFC 9421), then its body. Writes `principal` and `bufferedBody`.
 *
 * @param signers of whom one must have signed; a single one is known before
 */
export function proveSignature(
  gateway: Gateway,
  exchange: Exchange,
  signers: readonly Signer[] = gateway.signers.all,
): Outcome {
  const [known] = signers.length === 1 ? signers : []
  const signatures = readSignatures(exchange.req.fields)
  if (typeof signatures === 'string')
    return unproved(gateway, exchange, { outcome: 'malformed', cause: signatures, signer: known })
  if (signatures.length === 0) {
    const missing = { code: 'missing_signature', outcome: 'missing', cause: 'no Signature-Input' } as const
    return unproved(gateway, exchange, { ...missing, signer: known })
  }
  const blocked = refuseGuessing(gateway, exchange)
  if (blocked !== undefined) return decided(gateway, 'throttled', blocked)
  const presented = { requests: requestsOf(gateway, exchange), signatures, signers, nowMs: gateway.clock() }
  const settle = ({ verified, fault }: ReturnType<typeof verifyMessage>) =>
    verified === undefined
      ? refuseFault(gateway, exchange, fault, signers)
      : checkBody(gateway, exchange, verified)
  const verdict = verifyMessage(presented)
  if (known === undefined || verdict.fault?.reason !== 'unknown_key') return settle(verdict)
  // The client may have signed with a key that it has published since.
  return known.keys.refresh().then(() => (exchange.closed ? undefined : settle(verifyMessage(presented))))
}

/** The request at each of the public addresses that fit it. What a trusted proxy makes of Host need not be one of them. */
function requestsOf({ settings }: Gateway, exchange: Exchange): readonly SignedRequest[] {
  const { method, target, fields } = exchange.req
  return settings.dpop.publicUrls.flatMap((base) => {
    const { protocol, host, pathname } = new URL(base)
    const received = exchange.host.toLowerCase().replace(protocol === 'https:' ? /:443$/ : /:80$/, '')
    if (received !== host && !exchange.viaTrustedProxy) return []
    const uri = `${protocol}//${host}${pathname.replace(/\/$/, '')}${originForm(target)}`
    return [{ method, target, fields, uri }]
  })
}

function checkBody(gateway: Gateway, exchange: Exchange, verified: VerifiedSignature): Outcome {
  const { bufferedBody, req } = exchange
  const { body: source } = req
  if (bufferedBody !== undefined || source === null)
    return accept(gateway, exchange, verified, bufferedBody ?? NO_BODY)
  const body = readWholeBody(gateway, exchange, { owner: verified.signer.principal.key, source })
  if (!(body instanceof Promise)) return decided(gateway, body.code, body)
  return body.then((whole) => {
    if (!Buffer.isBuffer(whole)) return decided(gateway, whole.code, whole)
    exchange.bufferedBody = whole
    // Accepted now, the client's next attempt would be refused as a replay.
    return exchange.closed ? undefined : accept(gateway, exchange, verified, whole)
  })
}

function accept(gateway: Gateway, exchange: Exchange, verified: VerifiedSignature, body: Buffer): Outcome {
  const { signer, signature } = verified
  const isDigested = coversDigest(signature)
  if (body.length > 0 && !isDigested)
    return unproved(gateway, exchange, { outcome: 'uncovered', detail: NO_DIGEST, cause: NO_DIGEST, signer })
  const wrong = isDigested
    ? digestFault(combinedValue(exchange.req.fields, 'content-digest') ?? '', body)
    : undefined
  if (wrong !== undefined) {
    const code = 'digest_mismatch'
    return unproved(gateway, exchange, { code, outcome: code, cause: wrong, signer })
  }
  // A replay is signed too, so its sender is known.
  exchange.principal ??= signer.principal
  const settle = (found: ReplayFault | undefined): Refusal | undefined => {
    if (found === undefined) return decided(gateway, 'accepted', undefined)
    if (found !== 'replayed')
      return unavailable(gateway, 'proofs_unavailable', `accepted signatures cannot be remembered: ${found}`)
    return unproved(gateway, exchange, { outcome: found, detail: REPLAYED, cause: REPLAYED, signer })
  }
  const seen = gateway.acceptedSignatures.take(replayKey(verified), signer.principal.key)
  return seen instanceof Promise ? seen.then(settle) : settle(seen)
}

function refuseFault(
  gateway: Gateway,
  exchange: Exchange,
  { reason, ...fault }: SignatureFault,
  signers: readonly Signer[],
): Refusal {
  const unfetched = reason === 'unknown_key' ? signers.find(({ keys }) => !keys.loaded) : undefined
  if (unfetched !== undefined) {
    const cause = `the keys of ${quote(unfetched.principal.client)} have not been fetched yet`
    return unavailable(gateway, 'keys_unavailable', cause)
  }
  if (reason === 'mismatch' || reason === 'unknown_key') countGuess(gateway, exchange)
  return unproved(gateway, exchange, { ...fault, outcome: reason })
}

function unavailable(
  gateway: Gateway,
  code: 'keys_unavailable' | 'proofs_unavailable',
  cause: string,
): Refusal {
  const detail = 'Signatures cannot be verified at the moment.'
  return decided(gateway, code, refusal(code, { detail, headers: ['Retry-After', '5'], cause }))
}

interface Unproved extends Pick<SignatureFault, 'detail' | 'cause' | 'signer'> {
  readonly code?: RefusalCode
  /** For metrics. */
  readonly outcome: string
}

/** Tells a known client what its signature must have (RFC 9421 section 5.2). */
function unproved(
  gateway: Gateway,
  { req }: Exchange,
  { code = 'invalid_signature', outcome, detail, cause, signer }: Unproved,
): Refusal {
  const wanted = signer && acceptSignature(signer.profile, req.fields, req.body !== null)
  const headers = wanted === undefined ? CHALLENGE : [...CHALLENGE, 'Accept-Signature', wanted]
  const refused = refusal(code, { headers, cause, ...(detail !== undefined && { detail: `${detail}.` }) })
  return decided(gateway, outcome, refused)
}

function decided<R extends Refusal | undefined>(gateway: Gateway, outcome: string, refused: R): R {
  gateway.metrics.gateway_auth_decisions_total.count('signature', outcome)
  return refused
}
