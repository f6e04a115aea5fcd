import type { Route, Settings } from '../../config/settings.ts'
import { ruleOf } from '../../edge/rules/field-rules.ts'
import type { PathEntry } from '../../edge/rules/path-table.ts'
import {
  isAmbiguous,
  type Leniency,
  rawReadingsOf,
  readingsOf,
} from '../../edge/rules/policy/path-readings.ts'
import { originForm } from '../../edge/rules/request-target.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { type Refusal, refusal } from '../../refusals.ts'

const ODD_NAME = refusal('invalid_header', {
  detail: 'A header name has a character other than letters, digits and hyphens.',
  cause: 'underscoreNames of a route and allowedFieldNames can let such names through',
})
const NOT_HERE = refusal('invalid_target', {
  detail: 'This path must not have an encoded slash or a semicolon.',
  cause: 'the route needs "encodedSlashes" for an encoded slash, and "pathParameters" for a semicolon',
})
const LEADS_ELSEWHERE = refusal('invalid_target', {
  detail: 'Decoded or normalised in another way, the path would be that of another rule.',
})
const UNDERSCORE_NAME = /^[a-z0-9_-]+$/

/** Undefined when the names may pass. @param oddNames in lower case */
export function refusalOfNames(
  { allowedFieldNames, leniency }: Pick<Settings, 'allowedFieldNames' | 'leniency'>,
  oddNames: readonly string[],
): Refusal | undefined {
  for (const name of oddNames) {
    if (ruleOf(name).upstream === 'refused') {
      if (leniency?.methodOverrides.has(name) !== true) return methodOverride(name)
    } else if (!allowedFieldNames.has(name)) {
      if (leniency?.underscoreNames !== true || !UNDERSCORE_NAME.test(name)) return ODD_NAME
    }
  }
  return undefined
}

/** Frameworks act on such a header, but row, scopes and limit fit the request's own method. */
function methodOverride(name: string): Refusal {
  return refusal('method_override', {
    detail: `The ${name} header asks for another method: send the request with that method.`,
    cause: 'requestHeaders.allow of a route can let it through',
  })
}

interface Lookups extends Pick<Gateway, 'routes'> {
  readonly settings: Pick<Settings, 'allowedFieldNames' | 'leniency'>
  readonly limiter: Pick<Gateway['limiter'], 'find'>
}

interface Asked extends Pick<Exchange, 'path' | 'method'> {
  readonly headers: Pick<Exchange['headers'], 'oddNames'>
  readonly req: Pick<Exchange['req'], 'target'>
}

interface Found {
  readonly entry: PathEntry<Route>
  readonly row: Route
}

/** A service may read an ambiguous path in several ways, so this row and the same limit must govern all of them. */
export function checkLeniency(
  { settings, routes, limiter }: Lookups,
  { path, method, headers: { oddNames }, req }: Asked,
  { entry, row }: Found,
): Refusal | undefined {
  const { leniency } = row
  const { allowedFieldNames } = settings
  const refused = oddNames && refusalOfNames({ allowedFieldNames, leniency }, oddNames)
  if (refused !== undefined) return refused
  if (leniency?.rawPath !== true && !isAmbiguous(path)) return undefined
  if (!letsThrough(leniency, path)) return NOT_HERE
  const policy = limiter.find(path, method)
  const readings =
    leniency?.rawPath === true
      ? rawReadingsOf(originForm(req.target).replace(/\?.*$/s, ''))
      : readingsOf(path)
  const isSafe =
    readings &&
    [...readings].every((reading) => {
      const alias = routes.findFolded(reading)
      const isGovernedAlike =
        routes.find(reading) === entry && (alias === undefined || alias.weight <= entry.weight)
      return isGovernedAlike && limiter.find(reading, method) === policy
    })
  return isSafe === true ? undefined : LEADS_ELSEWHERE
}

function letsThrough(leniency: Leniency | undefined, path: string): boolean {
  if (path.includes('%2F') && leniency?.encodedSlashes !== true) return false
  return !path.includes(';') || leniency?.pathParameters === true
}
