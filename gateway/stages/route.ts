import { allowOf, type PathEntry, rowForMethod } from '../edge/rules/path-table.ts'
import { preflightIn } from '../edge/rules/policy/cors.ts'
import { isRewritable } from '../edge/rules/policy/sending-policy.ts'
import { UNREGISTERED_METHODS } from '../edge/syntax/status-codes.ts'
import type { Exchange, ServedRoute } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { bodyTooLarge, type Refusal, refusal } from '../refusals.ts'
import { checkLeniency } from './screening/check-leniency.ts'

const NOT_FOUND = refusal('not_found')
const NOT_REWRITABLE = refusal('invalid_target', {
  detail:
    'A part of the path is only a dot, splits a percent-encoded octet, or is cut off by a semicolon or an encoded slash.',
})

/** `countersign explain route` makes one for a request that nobody has sent. */
export type RoutedExchange = Pick<Exchange, 'path' | 'method' | 'route'> & {
  readonly headers: Pick<Exchange['headers'], 'contentLength' | 'oddNames'>
  readonly req: Pick<Exchange['req'], 'fields' | 'target'>
}

type RoutingGateway = Pick<Gateway, 'routes'> & Parameters<typeof checkLeniency>[0]

/**
 * Finds the row for an exchange. A path that differs from a more specific row only in letter case or a closing slash is
 * refused, because an upstream may take both for the same.
 */
export function route(gateway: RoutingGateway, exchange: RoutedExchange): Refusal | undefined {
  const entry = gateway.routes.find(exchange.path)
  if (entry === undefined) return NOT_FOUND
  const alias = gateway.routes.findFolded(exchange.path)
  if (alias !== undefined && alias.weight > entry.weight) return NOT_FOUND
  const row = rowOfPreflight(entry, exchange) ?? rowForMethod(entry, exchange.method)
  if (row === undefined || (row.methods === undefined && UNREGISTERED_METHODS.has(exchange.method)))
    return refusal('method_not_allowed', { headers: ['Allow', allowOf(entry)] })
  if (gateway.settings.leniency !== undefined) {
    const refused = checkLeniency(gateway, exchange, { entry, row })
    if (refused !== undefined) return refused
  }
  exchange.route = row
  if (row.sending !== undefined && !isRewritable(row.sending.rewrite, exchange.path)) return NOT_REWRITABLE
  const length = exchange.headers.contentLength
  return length !== undefined && length > row.maxBodyBytes ? bodyTooLarge(row.maxBodyBytes) : undefined
}

/** Finds the row that answers a preflight, even where another row takes OPTIONS. */
function rowOfPreflight(
  entry: PathEntry<ServedRoute>,
  { method, req }: RoutedExchange,
): ServedRoute | undefined {
  const preflight = preflightIn(method, req.fields)
  const row = preflight && rowForMethod(entry, preflight.requestedMethod)
  return row?.cors === undefined ? undefined : row
}
