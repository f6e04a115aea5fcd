import type { ReplayFault } from '../../auth/replay.ts'
import {
  type PresentedSignature,
  type SignatureFault,
  type SignatureForm,
  type Signer,
  type UnverifiedRequest,
  type VerifiedSignature,
  verifyMessage,
} from '../../auth/signatures/presented-signatures.ts'
import type { SignedRequest } from '../../auth/signatures/signature-base.ts'
import { SIGNATURE_FORMS } from '../../auth/signatures/signature-forms.ts'
import { quote } from '../../auth/tokens/quote.ts'
import { withoutNominated } from '../../edge/rules/hop-by-hop.ts'
import { originForm } from '../../edge/rules/request-target.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { andThen, type Outcome, type Refusal, type RefusalCode, refusal } from '../../refusals.ts'
import { NO_BODY, readWholeBody } from '../body/whole-body.ts'
import { countCredential, countGuess, refuseGuessing } from './throttle-guesses.ts'

type Verdict = ReturnType<typeof verifyMessage>

const REPLAYED = 'The signature was accepted before: sign each request anew'
const HTTP_MESSAGE = SIGNATURE_FORMS['rfc-9421']

export function presentsSignature({ signers }: Gateway, { req }: Exchange): boolean {
  return signers.forms.some(({ headers }) => req.fields.some(({ lower }) => headers.includes(lower)))
}

/** Verifies that the proved caller's client has signed the request, too. */
export function proveSigner(gateway: Gateway, exchange: Exchange): Outcome {
  const client = exchange.principal?.client
  const signer = gateway.signers.of(client)
  if (signer !== undefined) return proveSignature(gateway, exchange, signer)
  const cause = `the client ${quote(client)} has no "signature" in clients.json`
  return unproved(gateway, exchange, { form: HTTP_MESSAGE, outcome: 'unknown_client', cause })
}

/** Verifies a signature of the request, then its body. @param known the client that must have signed; undefined: any */
export function proveSignature(
  gateway: Gateway,
  exchange: Exchange,
  known: Signer | undefined = gateway.signers.only,
): Outcome {
  const { signers } = gateway
  const forms = known === undefined ? signers.forms : [SIGNATURE_FORMS[known.profile.form]]
  const { method, target, fields } = exchange.req
  const keyHeader = exchange.route?.idempotency?.header
  const received = { method, target, fields, requests: requestsOf(gateway, exchange), keyHeader }
  const { form, signatures, fault: cause } = presentedIn(received, forms)
  if (cause !== undefined)
    return unproved(gateway, exchange, { form, outcome: 'malformed', cause, signer: known })
  if (signatures.length === 0) {
    const missing = { code: 'missing_signature', outcome: 'missing', cause: `no ${form.headers[0]}` } as const
    return unproved(gateway, exchange, { ...missing, form, signer: known })
  }
  const ownersOf = (keyid: string) => {
    if (known === undefined) return signers.ownersOf(keyid)
    // The token says who has sent the request, even when another client has the same key or `keyid`.
    return known.keys.named(keyid).map((key) => ({ signer: known, key, rival: undefined }))
  }
  const claimed = known ?? signatures.flatMap(({ keyid }) => ownersOf(keyid))[0]?.signer
  const blocked = refuseGuessing(gateway, exchange, claimed?.principal.client)
  if (blocked !== undefined) return decided(gateway, 'throttled', blocked)
  const presented = { signatures, ownersOf, known, nowMs: gateway.clock() }
  const settle = ({ verified, fault }: Verdict) =>
    verified === undefined
      ? refuseFault(gateway, exchange, form, fault)
      : checkBody(gateway, exchange, { form, verified })
  const verify = () => verifyMessage(presented)
  return inTurn(gateway, exchange, verify, (verdict) => {
    if (verdict.fault?.reason !== 'unknown_key') return settle(verdict)
    // The client may have signed with a key that it published after the last fetch.
    const refreshed: Promise<unknown> = known === undefined ? signers.refresh() : known.keys.refresh()
    return refreshed.then(() => (exchange.closed ? undefined : inTurn(gateway, exchange, verify, settle)))
  })
}

function inTurn<T>(
  { verifier }: Gateway,
  exchange: Exchange,
  work: () => T,
  then: (result: T) => Outcome,
): Outcome {
  return andThen(verifier.turns.take(exchange, work), then)
}

function presentedIn(
  received: UnverifiedRequest,
  forms: readonly SignatureForm[],
): {
  readonly form: SignatureForm
  readonly signatures: readonly PresentedSignature[]
  readonly fault?: string
} {
  let malformed: { readonly form: SignatureForm; readonly fault: string } | undefined
  for (const form of forms) {
    const found = form.parse(received)
    if (typeof found === 'string') malformed ??= { form, fault: found }
    else if (found.length > 0) return { form, signatures: found }
  }
  return { form: forms[0] ?? HTTP_MESSAGE, ...malformed, signatures: [] }
}

/** Parsed addresses of `publicUrls`, which is one object while it is in force. */
const ADDRESSES = new WeakMap<readonly string[], ReturnType<typeof addressOf>[]>()

function addressOf(url: string) {
  const { protocol, host, pathname } = new URL(url)
  return {
    host,
    longHost: host + (protocol === 'https:' ? ':443' : ':80'),
    base: `${protocol}//${host}${pathname.replace(/\/$/, '')}`,
  }
}

/** The request at each public address that Host names; at every address if a trusted proxy may have changed Host. */
export function requestsOf({ settings }: Gateway, exchange: Exchange): readonly SignedRequest[] {
  const { method, target } = exchange.req
  // Headers that Connection names do not reach the service, so no signature can cover them.
  const fields = withoutNominated(exchange.req.fields)
  const { publicUrls } = settings.dpop
  const addresses = ADDRESSES.getOrInsertComputed(publicUrls, (urls) => urls.map(addressOf))
  const received = exchange.host.toLowerCase()
  // The authority of an absolute target replaces Host, but the client may have signed only Host.
  if (received !== exchange.headers.host?.toLowerCase()) return []
  return addresses
    .filter((one) => received === one.host || received === one.longHost || exchange.viaTrustedProxy)
    .map(({ base }) => ({ method, target, fields, uri: base + originForm(target) }))
}

interface Verified {
  readonly form: SignatureForm
  /** At least one; the first that fits the body counts. */
  readonly verified: readonly VerifiedSignature[]
}

function checkBody(gateway: Gateway, exchange: Exchange, signatures: Verified): Outcome {
  const { bufferedBody, req } = exchange
  const { body: source } = req
  if (bufferedBody !== undefined || source === null)
    return accept(gateway, exchange, signatures, bufferedBody ?? NO_BODY)
  const owner = signatures.verified[0]?.signer.principal.key ?? ''
  return andThen(readWholeBody(gateway, exchange, { owner, source }), (body) => {
    if (!Buffer.isBuffer(body)) return decided(gateway, body.code, body)
    exchange.bufferedBody = body
    // If the request of a client that has gone were accepted, a retry would be refused as a replay.
    return exchange.closed ? undefined : accept(gateway, exchange, signatures, body)
  })
}

function accept(gateway: Gateway, exchange: Exchange, { form, verified }: Verified, body: Buffer): Outcome {
  const judge = () => verified.map((one) => ({ ...one, fault: one.head.faultOf(body, gateway.clock()) }))
  return inTurn(gateway, exchange, judge, (judged) => {
    const good = judged.filter(({ fault }) => fault === undefined)
    const [first] = good
    if (first === undefined) {
      const [{ signer, fault } = {}] = judged
      return refuseFault(gateway, exchange, form, { ...(fault as SignatureFault), signer })
    }
    const { signer, head } = first
    // A replay is signed too, so its sender is known.
    exchange.principal ??= signer.principal
    return andThen(take(gateway, good), (found): Refusal | undefined => {
      if (found === undefined) {
        exchange.signed = head.signed?.(body)
        return decided(gateway, 'accepted', undefined)
      }
      if (found !== 'replayed')
        return unavailable(
          gateway,
          'proofs_unavailable',
          `accepted signatures cannot be remembered: ${found}`,
        )
      return unproved(gateway, exchange, { form, outcome: found, detail: REPLAYED, cause: REPLAYED, signer })
    })
  })
}

/** Remembers every good signature. Otherwise a replay could present one that was not remembered. */
function take(
  { acceptedSignatures }: Gateway,
  good: readonly VerifiedSignature[],
): ReplayFault | undefined | Promise<ReplayFault | undefined> {
  const nameOf = ({ signer, head }: VerifiedSignature) => `${signer.principal.client}\0${head.unique}`
  const takeOne = (one: VerifiedSignature) => acceptedSignatures.take(nameOf(one), one.signer.principal.key)
  const [first, another] = good
  if (first !== undefined && another === undefined) return takeOne(first)
  const taken = [...new Map(good.map((one) => [nameOf(one), one])).values()].map(takeOne)
  return Promise.all(taken).then((found) => found.find((fault) => fault !== undefined))
}

function refuseFault(
  gateway: Gateway,
  exchange: Exchange,
  form: SignatureForm,
  { reason, ...fault }: SignatureFault,
): Refusal {
  const signers = fault.signer === undefined ? gateway.signers.all : [fault.signer]
  const unfetched = reason === 'unknown_key' ? signers.find(({ keys }) => !keys.loaded) : undefined
  if (unfetched !== undefined) {
    const cause = `the keys of ${quote(unfetched.principal.client)} are not there: ${unfetched.keys.fault || 'they are being fetched'}`
    return unavailable(gateway, 'keys_unavailable', cause)
  }
  if (reason === 'mismatch' || reason === 'unknown_key') countGuess(gateway, exchange)
  const code = reason === 'digest_mismatch' ? reason : 'invalid_signature'
  return unproved(gateway, exchange, { ...fault, form, code, outcome: reason })
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
  readonly form: SignatureForm
  readonly code?: RefusalCode
  /** For metrics. */
  readonly outcome: string
}

function unproved(
  gateway: Gateway,
  { req, route }: Exchange,
  { form, code = 'invalid_signature', outcome, detail, cause, signer }: Unproved,
): Refusal {
  const wanted = { fields: req.fields, keyHeader: route?.idempotency?.header, hasBody: req.body !== null }
  const headers = form.challenge(wanted, signer?.profile)
  const said = { status: form.status, headers, detail: detail && `${detail}.` }
  const forLog = { cause, client: signer?.principal.client }
  return decided(gateway, outcome, refusal(code, { ...said, ...forLog }))
}

function decided<R extends Refusal | undefined>(gateway: Gateway, outcome: string, refused: R): R {
  return countCredential(gateway, 'signature', outcome, refused)
}
