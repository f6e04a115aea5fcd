import type { Field } from '../syntax/field.ts'
import { isProtectedName, ruleOf } from './field-rules.ts'
import { type ForwardedPolicy, isForOneCache } from './policy/response-policy.ts'
import { RESPONSE_PARTS } from './response-headers.ts'

/** Not allowed in trailers, because they say how to read the body or who sends it (RFC 9110 section 6.5.1). */
const OF_HEADS: ReadonlySet<string> = new Set([
  'age',
  'alt-svc',
  'authorization',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'cookie',
  'expires',
  'host',
  'location',
  'pragma',
  'retry-after',
  'set-cookie',
  'vary',
  'www-authenticate',
])

/**
 * Drops request trailers that belong in a head, or that the gateway would read or withhold there.
 * @param removed names that the route removes
 */
export function filterRequestTrailers(fields: readonly Field[], removed?: ReadonlySet<string>): Field[] {
  return fields.filter(
    ({ lower }) =>
      !OF_HEADS.has(lower) && !isProtectedName(lower) && !ruleOf(lower).odd && removed?.has(lower) !== true,
  )
}

/** Drops response trailers that the gateway sets or withholds, or that belong in a head. */
export function filterResponseTrailers(fields: readonly Field[], policy?: ForwardedPolicy): string {
  let lines = ''
  for (const { lower, line } of fields) {
    const part = RESPONSE_PARTS.get(lower)
    if (OF_HEADS.has(lower) || isForOneCache(lower) || (part !== undefined && part !== 'date')) continue
    if (policy?.replaced.has(lower) !== true) lines += line
  }
  return lines
}
