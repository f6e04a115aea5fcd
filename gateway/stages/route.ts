import type { Route } from '../config/settings.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type PathEntry, rowForMethod } from '../http/rules/path-table.ts'
import { type Refusal, refusal } from '../refusals.ts'

const NOT_FOUND = refusal('not_found')

/**
 * Finds the row that governs the exchange; without one nothing is forwarded. A path that differs from a more specific
 * row only in letter case or a closing slash is refused too: an upstream that takes both for the same would otherwise
 * be reached under the wrong row. Writes `route`.
 */
export function route(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const entry = gateway.routes.find(exchange.path)
  if (entry === undefined) return NOT_FOUND
  const alias = gateway.routes.findFolded(exchange.path)
  if (alias !== undefined && alias.weight > entry.weight) return NOT_FOUND
  const row = rowForMethod(entry, exchange.method)
  if (row === undefined) return methodNotAllowed(entry)
  exchange.route = row
  const length = exchange.headers.contentLength
  return length !== undefined && length > row.maxBodyBytes ? refusal('body_too_large') : undefined
}

function methodNotAllowed(entry: PathEntry<Route>): Refusal {
  const allowed = new Set(entry.rows.flatMap((row) => [...(row.methods ?? [])]))
  return refusal('method_not_allowed', { headers: ['Allow', [...allowed].join(', ')] })
}
