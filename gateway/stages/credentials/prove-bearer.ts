import type { ProofFault } from '../../auth/possession/dpop.ts'
import { provePossession } from '../../auth/possession/possession.ts'
import { mayBeGuess } from '../../auth/throttle.ts'
import { challenges, type readAccessToken, type Scheme, schemeOf } from '../../auth/tokens/authorization.ts'
import {
  type TokenFault,
  tokenFault,
  type Verification,
  type VerifiedToken,
} from '../../auth/tokens/verification.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { andThen, type Outcome, type Refusal, refusal } from '../../refusals.ts'
import { certificateOf, revocationUnavailable } from './prove-certificate.ts'
import { countCredential, countGuess, refuseGuessing } from './throttle-guesses.ts'

const SESSIONS_UNAVAILABLE = refusal('sessions_unavailable', {
  headers: ['Retry-After', '5'],
  cause: 'ended sessions cannot be written',
})
const SESSIONS_UNKNOWN = refusal('sessions_unavailable', {
  headers: ['Retry-After', '5'],
  cause: 'the shared store is away, so it is not known which sessions ended at other gateways',
})

type Presented = Exclude<ReturnType<typeof readAccessToken>, 'missing' | 'other'>
type Credential = Exclude<Presented, string>

/** Verifies an access token and its binding. An address that guesses can use only tokens that were verified before. */
export function proveBearer(gateway: Gateway, exchange: Exchange, credential: Presented): Outcome {
  if (typeof credential === 'string')
    return decided(gateway, 'malformed', refuseMalformed(gateway, exchange, credential))
  // A crash would restore a session whose end is not on the disk yet.
  if (!gateway.revocations.isSafe) return decided(gateway, 'unavailable', SESSIONS_UNAVAILABLE)
  if (!gateway.revocations.isKnown) return decided(gateway, 'unavailable', SESSIONS_UNKNOWN)
  const { verifier } = gateway
  const trust = exchange.route?.trustIssuers
  const blocked = refuseGuessing(gateway, exchange)
  if (blocked !== undefined) {
    const known = verifier.verifyKnown(credential.token, trust)
    if (known !== undefined) return accept(gateway, exchange, credential, known)
    if (!verifier.wasActive(credential.token, trust)) return decided(gateway, 'throttled', blocked)
  }
  return andThen(verifier.verify(credential.token, exchange, trust), (verification) =>
    accept(gateway, exchange, credential, verification),
  )
}

function refuseMalformed(
  { verifier: { maxChars } }: Gateway,
  { headers: { authorization } }: Exchange,
  fault: 'malformed' | 'too long',
): Refusal {
  const tooLong = `The access token is longer than ${maxChars} characters`
  const description = fault === 'too long' ? tooLong : 'The Authorization header is not well-formed'
  const cause = fault === 'too long' ? tooLong : 'Authorization is not one scheme and one token'
  const headers = challenges({ error: 'invalid_request', description, scheme: schemeOf(authorization) })
  return refusal('invalid_credentials', { detail: `${description}.`, headers, cause })
}

function accept(
  gateway: Gateway,
  exchange: Exchange,
  { scheme, token }: Credential,
  verification: Verification,
): Outcome {
  if (verification.fault !== undefined) {
    const { reason } = verification.fault
    if (mayBeGuess(reason)) countGuess(gateway, exchange)
    return decided(gateway, reason, refuseToken(verification.fault, scheme))
  }
  // Not 403: another token helps (RFC 6750 section 3.1, invalid_token).
  if (exchange.route?.trustIssuers?.has(verification.issuer) === false)
    return decided(
      gateway,
      'invalid',
      refuseToken(tokenFault('invalid', `the row does not trust ${verification.issuer}`), scheme),
    )
  const certificate =
    verification.binding?.thumbprint === undefined ? undefined : certificateOf(gateway, exchange)
  if (certificate?.isUnchecked === true) return revocationUnavailable(gateway, 'bearer', certificate)
  const proved = provePossession(gateway.proofs, verification.binding, {
    scheme,
    token,
    proof: exchange.headers.dpop,
    certificate,
    method: exchange.method,
    path: exchange.path,
  })
  return andThen(proved, (fault) => settle(gateway, exchange, { fault, token: verification, scheme }))
}

interface Proved {
  readonly fault: ProofFault | undefined
  readonly token: VerifiedToken
  readonly scheme: Scheme
}

function settle(gateway: Gateway, exchange: Exchange, { fault, token, scheme }: Proved): Refusal | undefined {
  if (fault !== undefined) {
    const { client } = token.principal
    if (GUESSES.has(fault.error) && fault.ofRefusedCertificate !== true) {
      const blocked = refuseGuessing(gateway, exchange, client)
      countGuess(gateway, exchange)
      if (blocked !== undefined) return decided(gateway, 'throttled', blocked)
    }
    // The cause may name a path that has to be masked, even one of another row.
    const cause = gateway.maskUnrouted === undefined ? fault.cause : fault.description
    return decided(gateway, fault.error, refusePossession(gateway, { ...fault, cause, client }, scheme))
  }
  exchange.principal = token.principal
  exchange.needsCertificate = token.binding?.thumbprint !== undefined
  return decided(gateway, 'accepted', undefined)
}

const GUESSES: ReadonlySet<ProofFault['error']> = new Set(['invalid_dpop_proof', 'invalid_token'])

interface Unproved extends ProofFault {
  readonly client: string | undefined
}

function refusePossession(gateway: Gateway, { error, description, cause, client }: Unproved, scheme: Scheme) {
  if (error === 'proofs_unavailable') return refusal(error, { headers: ['Retry-After', '5'], cause })
  const nonce = gateway.proofs.nonce()
  const headers = [...challenges({ error, description, scheme })]
  if (nonce !== undefined) headers.push('DPoP-Nonce', nonce)
  return refusal(error, { detail: description, headers, cause, client })
}

function refuseToken({ reason, description, cause, client }: TokenFault, scheme: Scheme): Refusal {
  if (reason === 'keys_unavailable' || reason === 'introspection_unavailable') {
    return refusal(reason, { headers: ['Retry-After', '5'], cause })
  }
  const headers = challenges({ error: 'invalid_token', description, scheme })
  return refusal('invalid_token', { detail: description, headers, cause, client })
}

function decided(gateway: Gateway, outcome: string, refused: Refusal | undefined): Refusal | undefined {
  return countCredential(gateway, 'bearer', outcome, refused)
}
