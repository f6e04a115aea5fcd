import type { Sample } from '../metric-families.ts'
import type { Metrics } from '../metrics.ts'
import type { Point } from './wire.ts'

/** `counts[i]` observations were at most `boundsSeconds[i]`; the last bound is infinity. */
export interface Spread {
  readonly boundsSeconds: readonly number[]
  readonly counts: readonly number[]
}

/** Counters at one moment. Label texts may come from outside. */
export interface Totals {
  readonly atMs: number
  readonly statuses: ReadonlyMap<string, number>
  readonly refusals: ReadonlyMap<string, number>
  readonly routes: ReadonlyMap<string, RouteTotals>
  readonly latency: Spread
  readonly upstreamLatency: ReadonlyMap<string, Spread>
  readonly upstreamAttempts: ReadonlyMap<string, number>
  readonly upstreamErrors: ReadonlyMap<string, number>
  /** Requests by upstream. `some` got a response; for `none` the client left after more than a second without one. */
  readonly answers: ReadonlyMap<string, ReadonlyMap<string, number>>
  /** Counts by method and outcome. */
  readonly credentials: ReadonlyMap<string, ReadonlyMap<string, number>>
  readonly decisions: ReadonlyMap<string, ReadonlyMap<string, number>>
  /** Requests with an idempotency key, by route and outcome. */
  readonly keyed: ReadonlyMap<string, ReadonlyMap<string, number>>
  readonly auditRecords: number
  readonly loopLag: Spread
  readonly storeLatency: Spread
  readonly cpuSeconds: number
}

interface RouteTotals {
  readonly requests: number
  readonly errors: number
  readonly latency: Spread
}

export function totalsOf(metrics: Metrics, atMs: number): Totals {
  const requests = metrics.gateway_http_requests_total.samples()
  const durations = metrics.gateway_http_request_duration_seconds.samples()
  const sent = metrics.gateway_upstream_request_duration_seconds.samples()
  const attempts = metrics.gateway_upstream_attempts_total.samples()
  const upstreamLatency = spreadsBy(sent, 'upstream')
  const { user, system } = process.cpuUsage()
  return {
    atMs,
    statuses: summed(requests, 'status'),
    refusals: summed(metrics.gateway_refusals_total.samples(), 'code'),
    routes: routesOf(requests, durations),
    latency: spreadOf(durations),
    upstreamLatency,
    upstreamAttempts: summed(attempts, 'upstream'),
    upstreamErrors: summed(
      attempts.filter(({ labels }) => labels.outcome !== 'answered'),
      'upstream',
    ),
    answers: new Map(
      [...summed(metrics.gateway_upstream_unanswered_total.samples(), 'upstream')].map(([upstream, none]) => {
        const some = upstreamLatency.get(upstream)?.counts.at(-1) ?? 0
        return [upstream, new Map(Object.entries({ some, none }))]
      }),
    ),
    credentials: summedBy(metrics.gateway_auth_decisions_total.samples(), 'method', 'outcome'),
    decisions: summedBy(metrics.gateway_rate_limit_decisions_total.samples(), 'limit', 'decision'),
    keyed: summedBy(metrics.gateway_idempotency_total.samples(), 'route', 'outcome'),
    auditRecords: sum(metrics.gateway_audit_records_total.samples()),
    loopLag: spreadOf(metrics.gateway_event_loop_lag_seconds.samples()),
    storeLatency: spreadOf(metrics.gateway_store_round_trip_duration_seconds.samples()),
    cpuSeconds: (user + system) / 1e6,
  }
}

function routesOf(requests: readonly Sample[], durations: readonly Sample[]): Map<string, RouteTotals> {
  const latency = spreadsBy(durations, 'route')
  const routes = [...groupedBy(requests, 'route')].map(([route, values]) => {
    const errors = values.filter(({ labels }) => String(labels.status).startsWith('5'))
    const totals = {
      requests: sum(values),
      errors: sum(errors),
      latency: latency.get(route) ?? spreadOf([]),
    }
    return [route, totals] as const
  })
  return new Map(routes)
}

function groupedBy(values: readonly Sample[], label: string): Map<string, Sample[]> {
  return Map.groupBy(values, ({ labels }) => String(labels[label]))
}

function summed(values: readonly Sample[], label: string): Map<string, number> {
  return new Map([...groupedBy(values, label)].map(([name, group]) => [name, sum(group)]))
}

function summedBy(values: readonly Sample[], outer: string, inner: string) {
  return new Map([...groupedBy(values, outer)].map(([name, group]) => [name, summed(group, inner)]))
}

function sum(values: readonly Sample[]): number {
  return values.reduce((total, { value }) => total + value, 0)
}

function spreadsBy(values: readonly Sample[], label: string): Map<string, Spread> {
  return new Map([...groupedBy(values, label)].map(([name, group]) => [name, spreadOf(group)]))
}

function spreadOf(values: readonly Sample[]): Spread {
  const buckets = new Map<number, number>()
  for (const { labels, value } of values) {
    if (labels.le === undefined) continue
    const bound = labels.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels.le)
    buckets.set(bound, (buckets.get(bound) ?? 0) + value)
  }
  const boundsSeconds = [...buckets.keys()].sort((one, other) => one - other)
  return { boundsSeconds, counts: boundsSeconds.map((bound) => buckets.get(bound) ?? 0) }
}

/** Growth per second; 0 after a counter was reset. */
export function perSecond(before: number | undefined, after: number | undefined, ms: number): number {
  return ms <= 0 ? 0 : (Math.max(0, (after ?? 0) - (before ?? 0)) * 1000) / ms
}

export function pointBetween(before: Totals, after: Totals): Point {
  const ms = after.atMs - before.atMs
  const rate = (matches: (status: string) => boolean) =>
    perSecond(countOf(before.statuses, matches), countOf(after.statuses, matches), ms)
  const always = () => true
  return {
    t: after.atMs / 1000,
    ok: rate((status) => /^[123]/.test(status)),
    clientErrors: rate((status) => status.startsWith('4')),
    serverErrors: rate((status) => !/^[1234]/.test(status)),
    refused: perSecond(countOf(before.refusals, always), countOf(after.refusals, always), ms),
    p50Ms: quantileMs(0.5, before.latency, after.latency),
    p95Ms: quantileMs(0.95, before.latency, after.latency),
    p99Ms: quantileMs(0.99, before.latency, after.latency),
  }
}

function countOf(counts: ReadonlyMap<string, number>, matches: (name: string) => boolean): number {
  let total = 0
  for (const [name, count] of counts) if (matches(name)) total += count
  return total
}

/**
 * The quantile between two moments, in milliseconds; null without observations. As in Prometheus, it is linear within a
 * bucket, and never above the last finite bound.
 */
export function quantileMs(quantile: number, before: Spread | undefined, after: Spread): number | null {
  const { boundsSeconds } = after
  const counts = after.counts.map((count, i) => Math.max(0, count - (before?.counts[i] ?? 0)))
  const total = counts.at(-1) ?? 0
  if (total === 0) return null
  const rank = quantile * total
  const at = counts.findIndex((count) => count >= rank)
  const upper = boundsSeconds[at] ?? Number.POSITIVE_INFINITY
  const lower = boundsSeconds[at - 1] ?? 0
  if (upper === Number.POSITIVE_INFINITY) return lower * 1000
  const below = counts[at - 1] ?? 0
  const inside = (counts[at] ?? 0) - below
  return (lower + ((upper - lower) * (rank - below)) / inside) * 1000
}
