import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  type Metric,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from 'prom-client'
import type { Exchange } from '../exchange.ts'
import { STATUS_CODES } from '../http/syntax/status-codes.ts'
import { REFUSALS } from '../refusals.ts'
import { auditMetrics } from './audit/audit-metrics.ts'
import { sealMetrics } from './audit/seal-metrics.ts'
import { vouchMetrics } from './audit/vouch-metrics.ts'
import { watchEventLoop } from './event-loop.ts'
import { expiryMetrics } from './expiry-metrics.ts'
import { exposeState, type GatewayState } from './gateway-state.ts'
import { storeMetrics } from './store-metrics.ts'
import { Spreading, Tally } from './tally.ts'
import { traceMetrics } from './trace-metrics.ts'
import { upstreamMetrics } from './upstream-metrics.ts'

/** The page for Prometheus. */
export interface Exposition {
  /** In the exposition format that `contentType` names. */
  expose(): Promise<string>
  readonly contentType: string
}

/** All metrics at one moment, as data. */
export type MetricsSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[]

/** All metrics, with one method for each event. Names and labels are part of the public contract. */
export type Metrics = ReturnType<typeof createMetrics>

type LimitDecision = 'allowed' | 'refused' | 'shadow_refused' | 'unavailable' | 'uncounted'

/** All other methods share one label value, so that callers cannot create new ones. */
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
 * How each status is counted: one that HTTP does not define as the first of its class (RFC 9110 section 15). Otherwise a
 * service that lets its callers choose the status would let them make hundreds of series.
 */
const COUNTED_STATUS = Uint16Array.from({ length: 600 }, (_, status) =>
  status === 499 || status in STATUS_CODES ? status : status - (status % 100),
)
/** Label of an exchange without a route; a route's path begins with a slash. */
const NO_ROUTE = 'none'
const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

const REMOVED = [
  // Sums of other metrics: gauges with names reserved for counters.
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  // Observed ten times a second, and `watchEventLoop` says as much.
  'nodejs_eventloop_utilization_summary',
  'nodejs_eventloop_utilization_histogram',
  // Replaced by `watchEventLoop`.
  'nodejs_eventloop_lag_seconds',
  ...['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'].map((of) => `nodejs_eventloop_lag_${of}_seconds`),
]
/** As rarely as a timer can, because the library cannot be told not to observe what is removed. */
const NEVER_MS = 2 ** 31 - 1

/** Creates the metrics in their own registry. */
export function createMetrics({ version }: { readonly version: string }) {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: NEVER_MS,
    eventLoopUtilizationTimeout: NEVER_MS,
  })
  for (const name of REMOVED) registry.removeSingleMetric(name)
  const http = httpMetrics(registers)
  const inside = insideMetrics(registers)
  const audit = auditMetrics(registers)
  const stores = storeMetrics(registers)
  expose(registers, [watchEventLoop(registers)])
  const info = new Gauge({
    name: 'gateway_build_info',
    help: 'Always 1; the labels say what runs.',
    labelNames: ['version', 'node'],
    registers,
  })
  info.set({ version, node: process.version }, 1)
  return {
    expose: () => registry.metrics(),
    /** The metrics as data. */
    snapshot: () => registry.getMetricsAsJSON() as Promise<MetricsSnapshot>,
    contentType: registry.contentType,
    ...http,
    ...tunnelMetrics(registers),
    ...inside,
    ...expiryMetrics(registers),
    ...audit,
    ...sealMetrics(registers),
    ...stores,
    /** Exposes what the gateway knows of itself. Called once. */
    state: (state: GatewayState) => exposeState(registers, state),
    ...traceMetrics(registers),
    /** Who vouches for the audit trail. */
    vouching: vouchMetrics(registers),
  }
}

/** The registry accepts any object with `get`; the library's types do not say so. */
function expose(registers: Registry[], families: readonly (Tally | Spreading)[]): void {
  for (const registry of registers) {
    for (const family of families) registry.registerMetric(family as unknown as Metric)
  }
}

function tunnelMetrics(registers: Registry[]) {
  let open = 0
  new Gauge({
    name: 'gateway_tunnels_open',
    help: 'Upgraded connections that are open.',
    registers,
    collect() {
      this.set(open)
    },
  })
  const ended = new Counter({
    name: 'gateway_tunnels_ended_total',
    help: 'Upgraded connections that have ended, by reason; closed is by either side.',
    labelNames: ['reason'],
    registers,
  })
  return {
    tunnelOpened: () => {
      open++
    },
    tunnelEnded: (reason: string) => {
      open--
      ended.inc({ reason })
    },
  }
}

function httpMetrics(registers: Registry[]) {
  const requests = new Tally({
    name: 'gateway_http_requests_total',
    help: 'Requests closed, by route, method and status; 499 is a client that went away.',
    labelNames: ['route', 'method', 'status'],
  })
  const durations = new Spreading(
    {
      name: 'gateway_http_request_duration_seconds',
      help: 'Time from the request to the last byte of its answer.',
      labelNames: ['route', 'method'],
    },
    BUCKETS_SECONDS,
  )
  let inFlight = 0
  new Gauge({
    name: 'gateway_http_requests_in_flight',
    help: 'Requests begun and not closed.',
    registers,
    collect() {
      this.set(inFlight)
    },
  })
  const abandoned = new Counter({
    name: 'gateway_requests_abandoned_total',
    help: 'About how many requests were sent ahead and never begun, because their client went away.',
    registers,
  })
  const refusals = new Tally({
    name: 'gateway_refusals_total',
    help: 'Answers made by the gateway instead of the upstream, by code.',
    labelNames: ['code'],
  })
  const grpcCalls = new Tally({
    name: 'gateway_grpc_calls_total',
    help: 'Calls of gRPC closed, by route and by the number of the status that they came to.',
    labelNames: ['route', 'code'],
  })
  const upstreamDurations = new Spreading(
    {
      name: 'gateway_upstream_request_duration_seconds',
      help: "Time from sending a request upstream to the head of the upstream's answer; of one that is sent again, from its first attempt, with the upstream of the last.",
      labelNames: ['upstream'],
    },
    BUCKETS_SECONDS,
  )
  const upstreams = upstreamMetrics(registers)
  // A counter that appears with its first event looks to Prometheus as if nothing had happened.
  for (const code of Object.keys(REFUSALS)) refusals.begin(code)
  expose(registers, [requests, durations, refusals, grpcCalls, upstreamDurations, ...upstreams.families])
  return {
    opened: () => {
      inFlight++
    },
    closed: (exchange: Exchange, statusCode: number, durationSeconds: number) => {
      const route = exchange.route?.path ?? NO_ROUTE
      const method = METHODS.has(exchange.method) ? exchange.method : 'OTHER'
      inFlight--
      requests.count(route, method, COUNTED_STATUS[statusCode] ?? 0)
      durations.observe(durationSeconds, route, method)
      if (exchange.grpcStatus !== undefined) grpcCalls.count(route, exchange.grpcStatus)
      if (exchange.refusalCode !== undefined) refusals.count(exchange.refusalCode)
    },
    /** Pipelined requests that were never started. */
    abandoned: (requests: number) => abandoned.inc(requests),
    upstreamAnswered: (upstream: string, durationSeconds: number) =>
      upstreamDurations.observe(durationSeconds, upstream),
    ...upstreams.methods,
  }
}

function insideMetrics(registers: Registry[]) {
  const auth = new Tally({
    name: 'gateway_auth_decisions_total',
    help: 'Credentials looked at, by authentication method and outcome.',
    labelNames: ['method', 'outcome'],
  })
  const limits = new Tally({
    name: 'gateway_rate_limit_decisions_total',
    help: 'Requests counted against a limit, by its name and the decision.',
    labelNames: ['limit', 'decision'],
  })
  const reloads = new Counter({
    name: 'gateway_config_reloads_total',
    help: 'Configuration files read, by file and result.',
    labelNames: ['file', 'result'],
    registers,
  })
  const lastReload = new Gauge({
    name: 'gateway_config_last_reload_successful',
    help: '1 when the file as it is now is in force, but for what needs a restart, 0 when the last good one is.',
    labelNames: ['file'],
    registers,
  })
  const overlooked = new Tally({
    name: 'gateway_shadow_refusals_total',
    help: 'Requests that a route in shadow mode let through and would have refused, by route and code.',
    labelNames: ['route', 'code'],
  })
  expose(registers, [auth, limits, overlooked])
  return {
    authDecision: (method: string, outcome: string) => auth.count(method, outcome),
    overlooked: (route: string, code: string) => overlooked.count(route, code),
    limitDecision: (limit: string, decision: LimitDecision) => limits.count(limit, decision),
    configReload: (file: string, result: 'success' | 'failure') => {
      reloads.inc({ file, result: 'failure' }, 0)
      reloads.inc({ file, result })
      lastReload.set({ file }, result === 'success' ? 1 : 0)
    },
  }
}
