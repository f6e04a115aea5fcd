import { challenges, schemeOf } from '../auth/tokens/authorization.ts'
import { quote } from '../auth/tokens/quote.ts'
import type { StepUp } from '../config/settings.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { missingScope, type Principal } from '../principal.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { overlook } from './credentials/overlook.ts'

/** Checks scopes (RFC 6750 section 3.1) and the authentication of the user (RFC 9470). */
export function authorize(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const refused = refuseScope(exchange) ?? refuseAuthentication(gateway, exchange)
  if (refused === undefined || exchange.route?.isShadow !== true) return refused
  // `authenticate` has already reported a caller who is not proved.
  return exchange.principal === undefined ? undefined : overlook(gateway, exchange, refused)
}

function refuseScope({ route, principal, headers }: Exchange): Refusal | undefined {
  const sets = route?.scopes
  const missing = missingScope(principal, sets)
  if (missing === undefined) return undefined
  return refusal('insufficient_scope', {
    cause: `no scope ${missing} among ${quote(principal?.scope)}`,
    headers: challenges({
      error: 'insufficient_scope',
      scope: sets?.[0]?.join(' ') ?? '',
      scheme: schemeOf(headers.authorization),
    }),
  })
}

export function refuseAuthentication(
  gateway: Gateway,
  { route, principal, headers }: Exchange,
): Refusal | undefined {
  const stepUp = route?.stepUp
  if (stepUp === undefined) return undefined
  const missing = missingAuthentication(stepUp, principal, gateway.clock())
  if (missing === undefined) return undefined
  const { acr, maxAgeMs } = stepUp
  return refusal('insufficient_user_authentication', {
    detail: missing.description,
    cause: missing.cause,
    headers: challenges({
      error: 'insufficient_user_authentication',
      description: missing.description,
      acrValues: acr?.join(' '),
      maxAgeSeconds: maxAgeMs === undefined ? undefined : maxAgeMs / 1000,
      scheme: schemeOf(headers.authorization),
    }),
  })
}

function missingAuthentication(
  { acr, maxAgeMs }: StepUp,
  { acr: used, authenticatedAtMs }: Partial<Principal> = {},
  nowMs: number,
): { readonly description: string; readonly cause: string } | undefined {
  if (acr !== undefined && (used === undefined || !acr.includes(used)))
    return {
      description: 'A different authentication level is required.',
      cause: `acr ${quote(used)} is not ${acr.join(' or ')}`,
    }
  if (maxAgeMs === undefined || (authenticatedAtMs ?? Number.NEGATIVE_INFINITY) + maxAgeMs >= nowMs)
    return undefined
  return {
    description: 'More recent authentication is required.',
    cause:
      authenticatedAtMs === undefined
        ? 'auth_time is missing, malformed or in the future'
        : `auth_time was ${Math.ceil((nowMs - authenticatedAtMs) / 1000)} s ago; ${maxAgeMs / 1000} s are allowed`,
  }
}
