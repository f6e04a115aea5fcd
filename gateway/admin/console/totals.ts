import type { MetricsSnapshot } from '../metrics.ts'

/** Observations of a histogram: how many were at most `boundsSeconds[i]`, the last bound being infinity. */
export interface Spread {
  readonly boundsSeconds: readonly number[]
  readonly counts: readonly number[]
}

/** What the counters of the metrics said at one moment, added up as the console shows it. Labels are texts of others. */
export interface Totals {
  /** Epoch milliseconds. */
  readonly atMs: number
  /** Responses by status code. */
  readonly statuses: ReadonlyMap<string, number>
  readonly refusals: ReadonlyMap<string, number>
  readonly routes: ReadonlyMap<string, RouteTotals>
  readonly latency: Spread
  readonly upstreamLatency: ReadonlyMap<string, Spread>
  /** By name of the limit and decision. */
  readonly decisions: ReadonlyMap<string, ReadonlyMap<string, number>>
  readonly auditRecords: number
  readonly loopLag: Spread
  readonly storeLatency: Spread
  /** Gauges and counters that have no labels, by name. */
  readonly single: ReadonlyMap<string, number>
}

interface RouteTotals {
  readonly requests: number
  readonly errors: number
  readonly latency: Spread
}

type Value = MetricsSnapshot[number]['values'][number]

/** The values of a metric; none when there is no such metric. */
export function valuesOf(snapshot: MetricsSnapshot, name: string): readonly Value[] {
  return snapshot.find((metric) => metric.name === name)?.values ?? []
}

export function totalsOf(snapshot: MetricsSnapshot, atMs: number): Totals {
  const requests = valuesOf(snapshot, 'gateway_http_requests_total')
  const durations = valuesOf(snapshot, 'gateway_http_request_duration_seconds')
  const upstream = valuesOf(snapshot, 'gateway_upstream_request_duration_seconds')
  const decisions = valuesOf(snapshot, 'gateway_rate_limit_decisions_total')
  const single = snapshot.flatMap(({ name, values }) => {
    const [first] = values
    const isSingle = values.length === 1 && Object.keys(first?.labels ?? {}).length === 0
    return first !== undefined && isSingle ? [[name, first.value] as const] : []
  })
  return {
    atMs,
    statuses: summed(requests, 'status'),
    refusals: summed(valuesOf(snapshot, 'gateway_refusals_total'), 'code'),
    routes: routesOf(requests, durations),
    latency: spreadOf(durations),
    upstreamLatency: spreadsBy(upstream, 'upstream'),
    decisions: new Map(
      [...groupedBy(decisions, 'limit')].map(([limit, values]) => [limit, summed(values, 'decision')]),
    ),
    auditRecords: sum(valuesOf(snapshot, 'gateway_audit_records_total')),
    loopLag: spreadOf(valuesOf(snapshot, 'gateway_event_loop_lag_seconds')),
    storeLatency: spreadOf(valuesOf(snapshot, 'gateway_store_round_trip_duration_seconds')),
    single: new Map(single),
  }
}

function routesOf(requests: readonly Value[], durations: readonly Value[]): Map<string, RouteTotals> {
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

function groupedBy(values: readonly Value[], label: string): Map<string, Value[]> {
  return Map.groupBy(values, ({ labels }) => String(labels[label]))
}

function summed(values: readonly Value[], label: string): Map<string, number> {
  return new Map([...groupedBy(values, label)].map(([name, group]) => [name, sum(group)]))
}

function sum(values: readonly Value[]): number {
  return values.reduce((total, { value }) => total + value, 0)
}

function spreadsBy(values: readonly Value[], label: string): Map<string, Spread> {
  return new Map([...groupedBy(values, label)].map(([name, group]) => [name, spreadOf(group)]))
}

/** Adds up the buckets of all series of a histogram. */
function spreadOf(values: readonly Value[]): Spread {
  const buckets = new Map<number, number>()
  for (const { labels, value } of values) {
    if (labels.le === undefined) continue
    const bound = labels.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels.le)
    buckets.set(bound, (buckets.get(bound) ?? 0) + value)
  }
  const boundsSeconds = [...buckets.keys()].sort((one, other) => one - other)
  return { boundsSeconds, counts: boundsSeconds.map((bound) => buckets.get(bound) ?? 0) }
}
