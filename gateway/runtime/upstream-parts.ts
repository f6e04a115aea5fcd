import type { Settings } from '../config/settings.ts'
import { groupsInUse } from '../config/upstreams/group-rules.ts'
import { PathTable } from '../edge/rules/path-table.ts'
import { pathMask } from '../edge/rules/policy/path-mask.ts'
import type { Field } from '../edge/syntax/field.ts'
import type { ServedRoute } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import type { RetryOutcome } from '../upstream/balancing/retry-budget.ts'
import { type GroupObserver, type GroupTarget, UpstreamGroups } from '../upstream/upstream-groups.ts'

/** At this path a row publishes the gateway's own keys. */
export const JWKS_PATH = '/.well-known/gateway-jwks.json'

interface UpstreamParts {
  readonly settings: Settings
  readonly upstreamSecret: Field | undefined
  readonly observer: GroupObserver
  readonly metrics: Gateway['metrics']
}

const OUTCOMES = ['answered', '5xx', 'failed'] as const
const RETRY_OUTCOMES: readonly RetryOutcome[] = ['succeeded', 'failed', 'denied']

/** @param before groups in force. Their `handOver` later passes on connections and health. */
export function makeUpstreams(
  { settings, upstreamSecret, observer, metrics }: UpstreamParts,
  before?: UpstreamGroups,
): UpstreamGroups {
  const { timeouts, maxInFlight } = settings
  const groups = groupsInUse(settings)
  for (const { name, targets, breaker, retry } of groups) {
    for (const target of targets) metrics.gateway_upstream_unanswered_total.begin(target)
    if (breaker !== undefined)
      for (const target of targets) metrics.gateway_upstream_breaker_opened_total.begin(target)
    if (retry !== undefined)
      for (const outcome of RETRY_OUTCOMES) metrics.gateway_upstream_retries_total.begin(name, outcome)
  }
  return new UpstreamGroups(
    {
      groups,
      tls: settings.upstreamTls,
      connectMs: timeouts.connectMs,
      headersMs: timeouts.headersMs,
      // A connection may still be closing when its exchange has ended.
      maxConnections: maxInFlight * 2,
      clock: () => performance.now(),
      observer,
      upstreamSecret,
    },
    before,
  )
}

export function servedRoutes(
  settings: Settings,
  upstreams: UpstreamGroups,
  { maskKey, jwks }: { readonly maskKey: string | undefined; readonly jwks: Buffer | undefined },
): PathTable<ServedRoute> {
  const { routes } = settings
  const groups = groupsInUse(settings)
  return new PathTable(
    routes.map((route) => ({
      ...route,
      client: upstreams.of(route.upstream),
      permits: upstreams.permitsOf(route.upstream),
      maskPath: route.mask && maskKey !== undefined ? pathMask(route.path, route.mask, maskKey) : undefined,
      jwks: route.path === JWKS_PATH ? jwks : undefined,
      signedTarget: route.signsRequests
        ? groups.find(({ name }) => name === route.upstream)?.targets[0]
        : undefined,
    })),
  )
}

/** Removed upstreams may still have requests, and are not logged. */
export function observeUpstreams(
  { log, metrics }: Pick<Gateway, 'log' | 'metrics'>,
  inForce: () => UpstreamGroups,
): GroupObserver {
  const warn = (group: string, upstream: string, what: object, message: string) => {
    const targets = inForce().targets
    if (targets.some((target) => target.group === group && target.url === upstream))
      log.warn({ group, upstream, ...what }, message)
  }
  return {
    onHealth: (group, upstream, healthy) =>
      warn(group, upstream, { healthy }, `an upstream is ${healthy ? 'healthy again' : 'unhealthy'}`),
    onCheck: (group, upstream, { isUp, cause }) =>
      isUp
        ? warn(group, upstream, { isUp }, 'an upstream passes its health checks again')
        : warn(group, upstream, { isUp, cause }, 'an upstream failed its health checks'),
    onBreaker: (group, upstream, state) => {
      // Requests from before a reload may still open the breaker that it replaced.
      if (!inForce().targets.some(({ url, breaker }) => url === upstream && breaker?.state === state)) return
      if (state === 'open') metrics.gateway_upstream_breaker_opened_total.count(upstream)
      warn(group, upstream, { state }, `the circuit breaker of an upstream is ${state}`)
    },
    onRetry: (group, outcome) => metrics.gateway_upstream_retries_total.count(group, outcome),
  }
}

const BREAKER_STATES = { closed: 0, 'half-open': 1, open: 2 } as const

/** An upstream in two groups has the worse state of both, and the sum of their attempts. */
export function exposeUpstreams(metrics: Gateway['metrics'], targets: () => readonly GroupTarget[]): void {
  /** Includes attempts of groups that a reload removed, because a counter must not fall while its upstream stays. */
  let attempts: ReadonlyMap<string, ReadonlySet<GroupTarget['health']['attempts']>> = new Map()
  metrics.gateway_upstream_healthy.read(() => {
    const healthy = new Map<string, number>()
    for (const { url, health } of targets()) {
      healthy.set(url, Math.min(healthy.get(url) ?? 1, health.isHealthy ? 1 : 0))
      if (!health.isHealthy) metrics.causes.set(`gateway_upstream_healthy ${url}`, health.cause)
    }
    return healthy
  })
  metrics.gateway_upstream_attempts_total.read(() => {
    attempts = new Map(
      [...Map.groupBy(targets(), ({ url }) => url)].map(([url, same]) => [
        url,
        new Set([...(attempts.get(url) ?? []), ...same.map(({ health }) => health.attempts)]),
      ]),
    )
    return [...attempts].flatMap(([url, all]) =>
      OUTCOMES.map((of) => [url, of, [...all].reduce((sum, each) => sum + each[of], 0)] as const),
    )
  })
  metrics.gateway_upstream_group_healthy.read(() => {
    const healthy = new Map<string, number>()
    for (const { group, url, health } of targets()) {
      healthy.set(group, Math.max(healthy.get(group) ?? 0, health.isHealthy ? 1 : 0))
      if (!health.isHealthy)
        metrics.causes.set(`gateway_upstream_group_healthy ${group}`, `${url}: ${health.cause}`)
    }
    return healthy
  })
  metrics.gateway_upstream_breaker_state.read(() => {
    const states = new Map<string, number>()
    for (const { url, breaker } of targets()) {
      if (breaker === undefined) continue
      states.set(url, Math.max(states.get(url) ?? 0, BREAKER_STATES[breaker.state]))
      if (breaker.state !== 'closed')
        metrics.causes.set(`gateway_upstream_breaker_state ${url}`, `last failure: ${breaker.cause}`)
    }
    return states
  })
}
