import { challenge, readBearer } from '../auth/authorization.ts'
import type { TokenFault, Verification } from '../auth/verifier.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Refusal, refusal } from '../refusals.ts'

const MISSING = refusal('missing_token', { headers: ['WWW-Authenticate', challenge('missing')] })
const MALFORMED = refusal('invalid_credentials', {
  headers: ['WWW-Authenticate', challenge('invalid_request', 'The Authorization header is not well-formed')],
})
const IN_QUERY = refusal('token_in_query', {
  headers: ['WWW-Authenticate', challenge('invalid_request', 'The access token must not be in the query')],
})
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
  const bearer = readBearer(exchange.headers.authorization)
  if (bearer === 'malformed') return decided(gateway, 'malformed', MALFORMED)
  if (typeof bearer === 'string') {
    return accepted.has('none') ? undefined : decided(gateway, 'missing', MISSING)
  }
  const verification = gateway.verifier.verify(bearer.token)
  return verification instanceof Promise
    ? verification.then((settled) => accept(gateway, exchange, settled))
    : accept(gateway, exchange, verification)
}

function accept(gateway: Gateway, exchange: Exchange, verification: Verification): Refusal | undefined {
  if (verification.fault !== undefined) {
    return decided(gateway, verification.fault.reason, refuseToken(verification.fault))
  }
  exchange.principal = verification.principal
  return decided(gateway, 'accepted', undefined)
}

function refuseToken(fault: TokenFault): Refusal {
  if (fault.reason === 'keys_unavailable') {
    return refusal('keys_unavailable', { headers: ['Retry-After', '5'], cause: fault.cause })
  }
  return refusal('invalid_token', {
    detail: fault.description,
    headers: ['WWW-Authenticate', challenge('invalid_token', fault.description)],
    cause: fault.cause,
  })
}

function decided(gateway: Gateway, outcome: string, refused: Refusal | undefined): Refusal | undefined {
  gateway.metrics.authDecision('bearer', outcome)
  return refused
}
