import type { Socket } from 'node:net'
import {
  type AccessTokenReading,
  challenges,
  hasTokenParameter,
  readAccessToken,
} from '../auth/tokens/authorization.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { andThen, type Outcome, refusal } from '../refusals.ts'
import { overlook } from './credentials/overlook.ts'
import { proveBearer } from './credentials/prove-bearer.ts'
import { certificateOf, proveCertificate, whenChecked } from './credentials/prove-certificate.ts'
import { presentsSignature, proveSignature, proveSigner } from './credentials/prove-signature.ts'
import { presentsWebhook, proveWebhook } from './credentials/prove-webhook.ts'
import { countCredential } from './credentials/throttle-guesses.ts'

const TOKEN_IN_QUERY = refusal('token_in_query', {
  headers: challenges({
    error: 'invalid_request',
    description: 'The access token must not be in the query',
    scheme: undefined,
  }),
  cause: 'an access token in the query',
})
const MISSING = {
  bearer: refusal('missing_token', {
    headers: challenges(),
    cause: 'no bearer or DPoP token in Authorization',
  }),
  hmac: refusal('missing_credentials', {
    detail: 'A signed webhook is needed.',
    headers: ['WWW-Authenticate', 'Webhook realm="api"'],
    cause: 'no X-API-Key, or no signature of the client that the row names',
  }),
  mtls: refusal('missing_credentials', {
    detail: 'A client certificate is needed.',
    headers: ['WWW-Authenticate', 'Certificate realm="api"'],
    cause: 'the connection has no client certificate',
  }),
}

/**
 * A presented credential must be valid, even where `none` is accepted. A credential in the request takes precedence
 * over the connection's certificate.
 */
export function authenticate(gateway: Gateway, exchange: Exchange): Outcome {
  const outcome = prove(gateway, exchange)
  if (exchange.route?.isShadow !== true) return outcome
  return andThen(outcome, (refused) => overlook(gateway, exchange, refused))
}

function prove(gateway: Gateway, exchange: Exchange): Outcome {
  const outcome =
    whenChecked(gateway, exchange)?.then(() => proveCaller(gateway, exchange)) ??
    proveCaller(gateway, exchange)
  if (exchange.route?.isSigned !== true) return outcome
  return andThen(outcome, (refused) => refused ?? proveSigner(gateway, exchange))
}

function proveCaller(gateway: Gateway, exchange: Exchange): Outcome {
  const accepted = exchange.route?.auth
  if (accepted === undefined) return undefined
  if (accepted.has('bearer')) {
    if (exchange.query !== '' && hasTokenParameter(exchange.query)) {
      return countCredential(gateway, 'bearer', 'malformed', TOKEN_IN_QUERY)
    }
    const credential = presentedToken(gateway, exchange)
    if (credential !== 'missing' && credential !== 'other') return proveBearer(gateway, exchange, credential)
  }
  if (accepted.has('hmac') && presentsWebhook(gateway, exchange)) return proveWebhook(gateway, exchange)
  if (accepted.has('signature') && presentsSignature(gateway, exchange))
    return proveSignature(gateway, exchange)
  if (accepted.has('mtls')) {
    const peer = certificateOf(gateway, exchange)
    if (peer !== undefined) return proveCertificate(gateway, exchange, peer)
  }
  if (accepted.has('none')) return undefined
  if (!accepted.has('bearer') && accepted.has('signature')) return proveSignature(gateway, exchange)
  const method = accepted.has('bearer') ? 'bearer' : accepted.has('hmac') ? 'hmac' : 'mtls'
  gateway.metrics.gateway_auth_decisions_total.count(method, 'missing')
  return MISSING[method]
}

const PRESENTED = new WeakMap<Socket, { readonly value: string; readonly reading: AccessTokenReading }>()

/** Most requests of a connection have the same token, and comparing is cheaper than parsing and hashing. */
function presentedToken(
  { verifier }: Gateway,
  { req: { socket }, headers: { authorization: value } }: Exchange,
): AccessTokenReading {
  if (value === undefined) return 'missing'
  const last = PRESENTED.get(socket)
  if (last?.value === value) return last.reading
  const reading = readAccessToken(value, verifier.maxChars)
  // A token that is too long now may be accepted after an edit of gateway.json.
  if (reading !== 'too long') PRESENTED.set(socket, { value, reading })
  return reading
}
