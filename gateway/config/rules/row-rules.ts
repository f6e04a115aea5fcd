import { withoutNames } from '../../edge/rules/path-template.ts'
import { type Fault, keyFaults } from '../faults.ts'
import type { JsonFile } from '../json/json-file.ts'
import type { WrittenGateway, WrittenRoute } from '../keys/gateway-keys.ts'
import type { Route } from '../settings.ts'
import { methodFault, methodSet, methodsMeet } from './method-rules.ts'
import { foldPath } from './path-rules.ts'

export type OperationRow = NonNullable<Exclude<WrittenGateway['openapi'], string | undefined>['rows']>[number]
/** A row of `routes`, or one of `openapi.rows`, in which all but its path may be missing. */
export type AnyRow = WrittenRoute | OperationRow

/** Yields rows of `routes`, then of `openapi.rows`, with their JSON paths. `routes` and `openapi` may be anything. */
export function* writtenRows({
  routes,
  openapi,
}: Pick<WrittenGateway, 'routes' | 'openapi'>): Iterable<{ readonly at: string; readonly row: AnyRow }> {
  for (const [list, rows] of [
    ['$.routes', routes],
    ['$.openapi.rows', operationRows(openapi)],
  ] as const) {
    if (!Array.isArray(rows)) continue
    for (const [index, row] of rows.entries())
      if (typeof row === 'object' && row !== null) yield { at: `${list}[${index}]`, row }
  }
}

/** @param openapi may be anything */
export function operationRows(openapi: WrittenGateway['openapi']): readonly OperationRow[] {
  const rows = typeof openapi === 'object' ? openapi?.rows : undefined
  return Array.isArray(rows) ? rows : []
}

/** The keys that routes and limits have in common. */
type WrittenRow = Pick<WrittenRoute, 'path' | 'methods'>
type Seen = { readonly row: WrittenRow; readonly at: string }

/** Reports faults of paths and methods, and conflicts between rows. @returns the indexes of rows without a fault */
export function checkRows(
  file: JsonFile<unknown>,
  list: string,
  rows: readonly WrittenRow[],
  faultOf: (path: string) => string | undefined,
): ReadonlySet<number> {
  const good = new Set<number>()
  const seen = new Map<string, Seen[]>()
  for (const [index, row] of rows.entries()) {
    const at = `${list}[${index}]`
    if (!file.check(`${at}.path`, row?.path, faultOf)) continue
    if (!file.checkEach(`${at}.methods`, row?.methods, methodFault)) continue
    const others = seen.get(foldedPattern(row.path)) ?? []
    const [reason] = others.flatMap((other) => conflict(row, other) ?? [])
    if (reason !== undefined) {
      file.refuse({ path: `${at}.path`, reason })
      continue
    }
    good.add(index)
    // Rows without a conflict differ in their methods, so there are only a few.
    others.push({ row, at })
    seen.set(foldedPattern(row.path), others)
  }
  return good
}

export function foldedPattern(path: string): string {
  return foldPath(withoutNames(path))
}

function conflict(row: WrittenRow, other: Seen): string | undefined {
  const written = JSON.stringify(row.path)
  if (withoutNames(row.path) !== withoutNames(other.row.path)) {
    return `${written} differs from ${JSON.stringify(other.row.path)} of ${other.at} only in letter case or a closing slash, and an upstream may take them for one`
  }
  if (!methodsMeet(methodSet(row.methods), methodSet(other.row.methods))) return undefined
  return `${written} is also the path of ${other.at}: give both rows "methods", and no method to both (GET includes HEAD)`
}

export function webhookConflicts(file: string, routes: readonly Route[]): Fault[] {
  const reason = 'needs "hmac" in "auth": it says whose webhooks come here'
  return keyFaults(file, routes, ({ webhookClient, auth }) =>
    webhookClient === undefined || auth.has('hmac') ? undefined : { key: 'webhookClient', reason },
  )
}

export function signatureConflicts(file: string, routes: readonly Route[]): Fault[] {
  return keyFaults(file, routes, ({ isSigned, auth }) => {
    if (!isSigned || !(auth.has('none') || auth.has('signature'))) return undefined
    const reason = auth.has('none')
      ? 'must not be asked for where "auth" has "none": no credential says who must sign'
      : 'must not be asked for where "auth" has "signature", which asks for a signature already'
    return { key: 'signatures', reason }
  })
}

export function tokenConflicts(file: string, routes: readonly Route[]): Fault[] {
  return keyFaults(file, routes, ({ stepUp, authorizationDetails, auth, isShadow }) => {
    const key = authorizationDetails ? 'authorizationDetails' : stepUp && (stepUp.acr ? 'acr' : 'maxAuthAge')
    if (key === undefined) return undefined
    if (isShadow && authorizationDetails)
      return { key, reason: 'must not be set where "mode" is "shadow", which refuses nobody' }
    if (auth.has('bearer') && !auth.has('none')) return undefined
    const reason = auth.has('none')
      ? 'must not be asked for where "auth" has "none": anyone passes without it'
      : 'must not be asked for where "auth" has no "bearer": only an access token says how a user was authenticated, and what they approved'
    return { key, reason }
  })
}
