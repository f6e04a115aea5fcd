import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import { STATUS_CODES } from '../edge/syntax/status-codes.ts'
import type { Exchange } from '../exchange.ts'
import { REFUSALS } from '../refusals.ts'
import { type Families, makeFamilies } from './metric-table.ts'

/** Prometheus' text format, or OpenMetrics 1.0, which has exemplars. */
export type Exposition = 'text' | 'openmetrics'

export const CONTENT_TYPES: Readonly<Record<Exposition, string>> = {
  text: Registry.PROMETHEUS_CONTENT_TYPE,
  openmetrics: Registry.OPENMETRICS_CONTENT_TYPE,
}

export interface Metrics extends Families {
  /** What is wrong, in the words of the log, by metric name and label values with spaces between. */
  readonly causes: Map<string, string>
  expose(format?: Exposition): Promise<string>
  closed(exchange: Exchange, statusCode: number, durationSeconds: number): void
  configReload(file: string, result: 'success' | 'failure'): void
}

/** Other methods share one label value, so that callers cannot create new ones. */
const METHODS: ReadonlySet<string> = new Set([
  'CONNECT',
  'DELETE',
  'GET',
  'HEAD',
  'OPTIONS',
  'PATCH',
  'POST',
  'PUT',
  'TRACE',
])
/**
 * The label of each status. A caller may make a service respond with any status, so one that HTTP does not define
 * counts as the first of its class (RFC 9110 section 15).
 */
const COUNTED_STATUS = Uint16Array.from({ length: 600 }, (_, status) =>
  status === 499 || status in STATUS_CODES ? status : status - (status % 100),
)
const SAMPLE_MS = 250
/** The route label of requests without a route; no path is `none`, because paths begin with a slash. */
const NO_ROUTE = 'none'

const REMOVED = [
  // Gauges with names reserved for counters.
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  // `watchEventLoop` measures what these tell.
  'nodejs_eventloop_utilization_summary',
  'nodejs_eventloop_utilization_histogram',
  'nodejs_eventloop_lag_seconds',
  ...['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'].map((of) => `nodejs_eventloop_lag_${of}_seconds`),
]
/** The longest delay of a timer, for removed metrics that the library still observes. */
const NEVER_MS = 2 ** 31 - 1

export function processMetrics(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: NEVER_MS,
    eventLoopUtilizationTimeout: NEVER_MS,
  })
  for (const name of REMOVED) registry.removeSingleMetric(name)
  return registry
}

export function createMetrics({ version }: { readonly version: string }): Metrics {
  const registry = processMetrics()
  const families = makeFamilies()
  watchEventLoop(families)
  for (const code of Object.keys(REFUSALS)) families.gateway_refusals_total.begin(code)
  families.gateway_build_info.set(1, version, process.version)
  return {
    ...families,
    causes: new Map(),
    expose: (format = 'text') => {
      for (const family of Object.values(families)) {
        // The registry accepts any object with `get`, against its types.
        if (family.isUsed) registry.registerMetric(family as unknown as Metric)
      }
      return format === 'text' ? registry.metrics() : openMetricsOf(registry).metrics()
    },
    closed: (exchange, statusCode, durationSeconds) => {
      const route = exchange.route?.path ?? NO_ROUTE
      const method = METHODS.has(exchange.method) ? exchange.method : 'OTHER'
      families.gateway_http_requests_total.count(route, method, COUNTED_STATUS[statusCode] ?? 0)
      const durations = families.gateway_http_request_duration_seconds
      if (exchange.trace === undefined) durations.observe(durationSeconds, route, method)
      else durations.observeTraced(exchange.trace.traceId, durationSeconds, route, method)
      if (exchange.grpcStatus !== undefined)
        families.gateway_grpc_calls_total.count(route, exchange.grpcStatus)
      if (exchange.refusalCode !== undefined) families.gateway_refusals_total.count(exchange.refusalCode)
    },
    configReload: (file, result) => {
      families.gateway_config_reloads_total.begin(file, 'failure')
      families.gateway_config_reloads_total.count(file, result)
      families.gateway_config_last_reload_successful.set(result === 'success' ? 1 : 0, file)
    },
  }
}

/** Names metrics as OpenMetrics wants; the library would rename counters for the text format too. */
function openMetricsOf(registry: Registry): Registry<typeof Registry.OPENMETRICS_CONTENT_TYPE> {
  const open = new Registry(Registry.OPENMETRICS_CONTENT_TYPE)
  for (const metric of registry.getMetricsAsArray() as unknown as readonly Metric[]) {
    const read = () => metric.get()
    const type = (metric as unknown as { readonly type: string }).type
    const name = (metric as unknown as { readonly name: string }).name.replace(/_total$/, '')
    const renamed = { name, type, get: async () => ({ ...(await read()), name }) }
    open.registerMetric(renamed as unknown as Metric)
  }
  return open
}

/** The library's own gauges contain the time between two samples, and each scrape resets them. */
function watchEventLoop(families: Families): void {
  const lag = families.gateway_event_loop_lag_seconds
  lag.begin()
  families.gateway_event_loop_active_seconds_total.read(
    () => performance.eventLoopUtilization().active / 1000,
  )
  let dueMs = performance.now() + SAMPLE_MS
  const sample = () => {
    const nowMs = performance.now()
    lag.observe(Math.max(0, nowMs - dueMs) / 1000)
    dueMs = nowMs + SAMPLE_MS
  }
  setInterval(sample, SAMPLE_MS).unref()
}
