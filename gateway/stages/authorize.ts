import { missingScope } from '../auth/held-scopes.ts'
import { challenges, schemeOf } from '../auth/tokens/authorization.ts'
import { quote } from '../auth/tokens/quote.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { overlook } from './credentials/overlook.ts'

/** Checks that the caller holds every scope of one of the route's sets (RFC 6750 section 3.1). In shadow mode nobody is refused. */
export function authorize(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const sets = exchange.route?.scopes
  const missing = missingScope(exchange.principal, sets)
  if (missing === undefined) return undefined
  const refused = refusal('insufficient_scope', {
    cause: `no scope ${missing} among ${quote(exchange.principal?.scope)}`,
    headers: challenges({
      error: 'insufficient_scope',
      scope: sets?.[0]?.join(' ') ?? '',
      scheme: schemeOf(exchange.headers.authorization),
    }),
  })
  if (exchange.route?.isShadow !== true) return refused
  // Nobody is proved: that was reported already, and nobody has scopes.
  return exchange.principal === undefined ? undefined : overlook(gateway, exchange, refused)
}
