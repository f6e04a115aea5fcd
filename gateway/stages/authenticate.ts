import { challenges, readAccessToken, type Scheme, schemeOf } from '../auth/authorization.ts'
import { provePossession } from '../auth/possession.ts'
import type { ProofFault } from '../auth/proof-fault.ts'
import { mayBeGuess } from '../auth/throttle.ts'
import type { TokenFault, Verification } from '../auth/verifier.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/key.ts'
import { type Refusal, refusal } from '../refusals.ts'

const MISSING = refusal('missing_token', { headers: challenges() })
const IN_QUERY = refusal('token_in_query', {
  headers: challenges({
    error: 'invalid_request',
    description: 'The access token must not be in the query',
    scheme: undefined,
  }),
})
type PresentedToken = Exclude<ReturnType<typeof readAccessToken>, string>
const TOKEN_PARAMETER = /[?&]access_token(?:=|&|$)/i

/**
 * Finds out who calls, by what the route accepts. A credential that is presented must be good, also where anyone may
 * call. Waits only for keys that are not known yet or a token that was not seen before. Writes `principal`.
 */
export function authenticate(
  gateway: Gateway,
  exchange: Exchange,
): Refusal | undefined | Promise<Refusal | undefined> {
  const accepted = exchange.route?.auth
  if (accepted?.has('bearer') !== true) return undefined
  if (exchange.query !== '' && TOKEN_PARAMETER.test(exchange.query))
    return decided(gateway, 'malformed', IN_QUERY)
  const credential = readAccessToken(exchange.headers.authorization)
  if (credential === 'malformed') return decided(gateway, 'malformed', refuseMalformed(exchange))
  if (typeof credential === 'string') {
    return accepted.has('none') ? undefined : decided(gateway, 'missing', MISSING)
  }
  const blockedSeconds = gateway.throttle?.blockedSeconds(limitKey('address', undefined, exchange.address))
  if (blockedSeconds !== undefined) {
    return decided(
      gateway,
      'throttled',
      refusal('too_many_failures', {
        headers: ['Retry-After', String(blockedSeconds)],
      }),
    )
  }
  const verification = gateway.verifier.verify(credential.token)
  return verification instanceof Promise
    ? verification.then((settled) => accept(gateway, exchange, credential, settled))
    : accept(gateway, exchange, credential, verification)
}

function refuseMalformed(exchange: Exchange): Refusal {
  return refusal('invalid_credentials', {
    headers: challenges({
      error: 'invalid_request',
      description: 'The Authorization header is not well-formed',
      scheme: schemeOf(exchange.headers.authorization),
    }),
  })
}

function accept(
  gateway: Gateway,
  exchange: Exchange,
  { scheme, token }: PresentedToken,
  verification: Verification,
): Refusal | undefined {
  if (verification.fault !== undefined) {
    const { reason } = verification.fault
    if (mayBeGuess(reason)) gateway.throttle?.failed(limitKey('address', undefined, exchange.address))
    return decided(gateway, reason, refuseToken(verification.fault, scheme))
  }
  const { method, path } = exchange
  const proof = exchange.headers.dpop
  const certificate = undefined
  const fault = provePossession(gateway.proofs, verification.binding, {
    scheme,
    token,
    proof,
    certificate,
    method,
    path,
  })
  if (fault !== undefined)
    return decided(gateway, fault.error, refusePossession(gateway, exchange, fault, scheme))
  exchange.principal = verification.principal
  return decided(gateway, 'accepted', undefined)
}

function refusePossession(gateway: Gateway, exchange: Exchange, fault: ProofFault, scheme: Scheme): Refusal {
  const { error, description, cause } = fault
  if (error !== 'use_dpop_nonce') gateway.throttle?.failed(limitKey('address', undefined, exchange.address))
  const nonce = gateway.proofs.nonce()
  const headers = [...challenges({ error, description, scheme })]
  if (nonce !== undefined) headers.push('DPoP-Nonce', nonce)
  return refusal(error, { detail: description, headers, cause })
}

function refuseToken(fault: TokenFault, scheme: Scheme): Refusal {
  if (fault.reason === 'keys_unavailable') {
    return refusal('keys_unavailable', {
      headers: ['Retry-After', '5'],
      cause: fault.cause,
    })
  }
  return refusal('invalid_token', {
    detail: fault.description,
    headers: challenges({
      error: 'invalid_token',
      description: fault.description,
      scheme,
    }),
    cause: fault.cause,
  })
}

function decided(gateway: Gateway, outcome: string, refused: Refusal | undefined): Refusal | undefined {
  gateway.metrics.authDecision('bearer', outcome)
  return refused
}
