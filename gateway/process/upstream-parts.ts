import type { Settings } from '../config/settings.ts'
import { groupsInUse } from '../config/upstreams/group-rules.ts'
import type { ServedRoute } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { PathTable } from '../http/rules/path-table.ts'
import type { Field } from '../http/syntax/field.ts'
import { type GroupObserver, UpstreamGroups } from '../upstream/upstream-groups.ts'

interface UpstreamParts {
  readonly settings: Settings
  readonly upstreamSecret: Field | undefined
  readonly observer: GroupObserver
  readonly metrics: Gateway['metrics']
}

/** @param before groups in force. Targets that stay keep connections and health, once they hand over. */
export function makeUpstreams(
  { settings, upstreamSecret, observer, metrics }: UpstreamParts,
  before?: UpstreamGroups,
): UpstreamGroups {
  const { timeouts, maxInFlight } = settings
  const groups = groupsInUse(settings)
  metrics.beginGroups(groups)
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

/** The routes, each with the client and the bound of its group. */
export function servedRoutes({ routes }: Settings, upstreams: UpstreamGroups): PathTable<ServedRoute> {
  return new PathTable(
    routes.map((route) => ({
      ...route,
      client: upstreams.of(route.upstream),
      permits: upstreams.permitsOf(route.upstream),
    })),
  )
}

/** A log line for each change of upstreams that are in force, and the counts. */
export function observeUpstreams(
  { log, metrics }: Pick<Gateway, 'log' | 'metrics'>,
  inForce: () => UpstreamGroups,
): GroupObserver {
  // One that was removed may still have requests.
  const warn = (group: string, upstream: string, what: object, message: string) => {
    const targets = inForce().targets
    if (targets.some((target) => target.group === group && target.url === upstream))
      log.warn({ group, upstream, ...what }, message)
  }
  return {
    onHealth: (group, upstream, healthy) => warn(group, upstream, { healthy }, 'upstream health'),
    onCheck: (group, upstream, { isUp, cause }) =>
      warn(group, upstream, isUp ? { isUp } : { isUp, cause }, 'upstream health check'),
    onBreaker: (group, upstream, state) => {
      if (state === 'open') metrics.breakerOpened(upstream)
      warn(group, upstream, { state }, 'upstream circuit breaker')
    },
    onRetry: (group, outcome) => metrics.upstreamRetry(group, outcome),
  }
}
