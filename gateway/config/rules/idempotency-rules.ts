import { ruleOf } from '../../edge/rules/field-rules.ts'
import { isToken } from '../../edge/syntax/characters.ts'
import { type Fault, keyFaults } from '../faults.ts'
import type { JsonFile } from '../json/json-file.ts'
import type { IdempotencyTerms, Route } from '../settings.ts'
import type { AnyRow } from './row-rules.ts'
import { isHttp2Upstream } from './value-rules.ts'
import { windowToMs } from './window-rule.ts'

const MIN_KEEP_MS = 60_000
const MAX_KEEP_MS = 30 * 86_400_000
/** Longest body that a shared store keeps. Longer bodies would delay other commands. */
const MAX_SHARED_BYTES = 65_536
const DEFAULT_HEADER = 'idempotency-key'
/** Headers that mean something to caches and services. */
const WITH_MEANING =
  /^(?:accept|access-control-|cache-control$|content-|cookie|if-|pragma$|prefer$|priority$|sec-|signature|want-)/

export function checkIdempotency(json: JsonFile<unknown>, at: string, { idempotency }: AnyRow): void {
  json.check(`${at}.idempotency.keep`, idempotency?.keep, (keep) => {
    const ms = windowToMs(keep)
    return ms >= MIN_KEEP_MS && ms <= MAX_KEEP_MS ? undefined : `must be from "1m" to "30d", but is "${keep}"`
  })
  json.check(`${at}.idempotency.header`, idempotency?.header, headerFault)
}

function headerFault(header: string): string | undefined {
  const lower = header.toLowerCase()
  if (!isToken(header)) return `must be the name of a header, but is ${JSON.stringify(header)}`
  const { once, joined, odd, upstream } = ruleOf(lower)
  if (WITH_MEANING.test(lower)) return `must not be ${JSON.stringify(header)}, which has a meaning of its own`
  if (lower === DEFAULT_HEADER || (once === 0 && !joined && !odd && upstream === 'copied')) return undefined
  return `must not be ${JSON.stringify(header)}, which the gateway reads or does not pass to services`
}

export function idempotencyTerms(idempotency: NonNullable<AnyRow['idempotency']>): IdempotencyTerms {
  const { header, keep, maxKeysPerCaller, onUnknown, ...same } = idempotency
  return {
    ...same,
    header: header.toLowerCase(),
    keepMs: windowToMs(keep),
    maxKeys: maxKeysPerCaller,
    resolves: onUnknown === 'forward',
  }
}

interface Served {
  readonly routes: readonly Route[]
  /** Targets by the name of the group. */
  readonly groups: ReadonlyMap<string, readonly string[]>
  readonly hasStore: boolean
}

export function idempotencyConflicts(file: string, { routes, groups, hasStore }: Served): Fault[] {
  return keyFaults(file, routes, ({ idempotency, auth, isShadow, upstream }) => {
    if (idempotency === undefined) return undefined
    const isHttp2 = groups.get(upstream)?.some(isHttp2Upstream) === true
    const reason = auth.has('none')
      ? 'must not be set where "auth" has "none": a key belongs to its caller'
      : isShadow
        ? 'must not be set where "mode" is "shadow": a key belongs to an authenticated caller'
        : isHttp2
          ? `must not be set where the group ("${upstream}") speaks HTTP/2, as for gRPC`
          : undefined
    if (reason !== undefined) return { key: 'idempotency', reason }
    const { maxResponseBytes } = idempotency
    if (!hasStore || maxResponseBytes <= MAX_SHARED_BYTES) return undefined
    const tooLong = `must be at most ${MAX_SHARED_BYTES} with GATEWAY_STORE, but is ${maxResponseBytes}: a response goes to the store whole`
    return { key: 'idempotency.maxResponseBytes', reason: tooLong }
  })
}
