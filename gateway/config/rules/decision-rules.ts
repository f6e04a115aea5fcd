import { parametersOf } from '../../edge/rules/path-template.ts'
import { pointerSteps } from '../../edge/syntax/json-pointer.ts'
import { type Fault, keyFaults } from '../faults.ts'
import type { JsonFile } from '../json/json-file.ts'
import type { DecisionTerms, DetailsTerms, JsonMember, Route } from '../settings.ts'
import type { AnyRow } from './row-rules.ts'
import { privateUrlFault } from './value-rules.ts'
import { cacheToMs, MAX_CACHE_MS } from './window-rule.ts'

export function checkDecision(json: JsonFile<unknown>, at: string, { decision }: AnyRow): void {
  json.check(`${at}.decision.url`, decision?.url, privateUrlFault)
  json.check(`${at}.decision.cache`, decision?.cache, (cache) =>
    cacheToMs(cache) <= MAX_CACHE_MS ? undefined : `must be at most "5m", but is "${cache}"`,
  )
}

export function decisionTerms(
  { url, timeoutMs, cache, body }: NonNullable<AnyRow['decision']>,
  path: string,
): DecisionTerms {
  const cacheMs = cacheToMs(cache)
  return {
    key: `${url} ${timeoutMs} ${cacheMs}`,
    url,
    timeoutMs,
    cacheMs,
    parameters: parametersOf(path),
    members: body.map(memberOf),
  }
}

export function detailsTerms({ type, match }: NonNullable<AnyRow['authorizationDetails']>): DetailsTerms {
  return {
    type,
    details: Object.keys(match).map(memberOf),
    members: Object.values(match).map(memberOf),
  }
}

function memberOf(pointer: string): JsonMember {
  return { pointer, steps: pointerSteps(pointer) }
}

export function decisionConflicts(file: string, routes: readonly Route[]): Fault[] {
  return keyFaults(file, routes, ({ decision, auth, isShadow }) => {
    if (decision === undefined || !(isShadow || auth.has('none'))) return undefined
    const reason = isShadow
      ? 'must not be set where "mode" is "shadow", which refuses nobody'
      : 'must not be set where "auth" has "none": a decision is about an authenticated caller'
    return { key: 'decision', reason }
  })
}
