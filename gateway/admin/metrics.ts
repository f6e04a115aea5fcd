import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Exchange } from '../exchange.ts'

/** Everything Prometheus is told, one verb for each thing that happens. Names and labels are the contract's. */
export interface Metrics {
  /** In the exposition format that `contentType` names. */
  expose(): Promise<string>
  readonly contentType: string
  opened(): void
  closed(exchange: Exchange, statusCode: number, durationSeconds: number): void
  upstreamAnswered(upstream: string, durationSeconds: number): void
  upstreamHealth(upstream: string, healthy: boolean): void
  authDecision(method: string, outcome: string): void
  limitDecision(limit: string, decision: 'allowed' | 'refused' | 'shadow_refused'): void
  auditRecord(type: string): void
  auditWriteError(): void
  configReload(file: string, result: 'success' | 'failure'): void
  /** Epoch seconds after which the listener's certificate is no longer good. */
  certificateExpiry(notAfterSeconds: number): void
}

/** Any other method is counted as one, so that a caller cannot make label values. */
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
/** Label of an exchange that no route governs; a route's path begins with a slash. */
const NO_ROUTE = 'none'
const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Sums of others of the library's metrics, under names that only a counter may have. */
const MISNAMED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
]

/** Makes the metrics in a registry of their own. */
export function createMetrics(build: { readonly version: string }): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 })
  for (const name of MISNAMED) registry.removeSingleMetric(name)
  const http = httpMetrics(registers)
  const inside = insideMetrics(registers)
  const info = new Gauge({
    name: 'gateway_build_info',
    help: 'Always 1; the labels say what runs.',
    labelNames: ['version', 'node'],
    registers,
  })
  info.set({ version: build.version, node: process.version }, 1)
  return {
    expose: () => registry.metrics(),
    contentType: registry.contentType,
    ...http,
    ...inside,
  }
}

type HttpMetrics = Pick<Metrics, 'opened' | 'closed' | 'upstreamAnswered' | 'upstreamHealth'>

function httpMetrics(registers: Registry[]): HttpMetrics {
  const requests = new Counter({
    name: 'gateway_http_requests_total',
    help: 'Requests closed, by route, method and status; 499 is a client that went away.',
    labelNames: ['route', 'method', 'status'],
    registers,
  })
  const durations = new Histogram({
    name: 'gateway_http_request_duration_seconds',
    help: 'Time from the request to the last byte of its answer.',
    labelNames: ['route', 'method'],
    buckets: BUCKETS_SECONDS,
    registers,
  })
  const inFlight = new Gauge({
    name: 'gateway_http_requests_in_flight',
    help: 'Requests begun and not closed.',
    registers,
  })
  const refusals = new Counter({
    name: 'gateway_refusals_total',
    help: 'Answers made by the gateway instead of the upstream, by code.',
    labelNames: ['code'],
    registers,
  })
  const upstreamDurations = new Histogram({
    name: 'gateway_upstream_request_duration_seconds',
    help: "Time from sending a request upstream to the head of the upstream's answer.",
    labelNames: ['upstream'],
    buckets: BUCKETS_SECONDS,
    registers,
  })
  const healthy = new Gauge({
    name: 'gateway_upstream_healthy',
    help: '1 unless the last connection to the upstream failed.',
    labelNames: ['upstream'],
    registers,
  })
  return {
    opened: () => inFlight.inc(),
    closed: (exchange, statusCode, durationSeconds) => {
      const route = exchange.route?.path ?? NO_ROUTE
      const method = METHODS.has(exchange.method) ? exchange.method : 'OTHER'
      inFlight.dec()
      requests.inc({ route, method, status: statusCode })
      durations.observe({ route, method }, durationSeconds)
      if (exchange.refusalCode !== undefined) refusals.inc({ code: exchange.refusalCode })
    },
    upstreamAnswered: (upstream, durationSeconds) => upstreamDurations.observe({ upstream }, durationSeconds),
    upstreamHealth: (upstream, isHealthy) => healthy.set({ upstream }, isHealthy ? 1 : 0),
  }
}

type InsideMetrics = Pick<
  Metrics,
  'authDecision' | 'limitDecision' | 'auditRecord' | 'auditWriteError' | 'configReload' | 'certificateExpiry'
>

function insideMetrics(registers: Registry[]): InsideMetrics {
  const auth = new Counter({
    name: 'gateway_auth_decisions_total',
    help: 'Credentials looked at, by authentication method and outcome.',
    labelNames: ['method', 'outcome'],
    registers,
  })
  const limits = new Counter({
    name: 'gateway_rate_limit_decisions_total',
    help: 'Requests counted against a limit, by its name and the decision.',
    labelNames: ['limit', 'decision'],
    registers,
  })
  const records = new Counter({
    name: 'gateway_audit_records_total',
    help: 'Records handed to the audit trail, by type.',
    labelNames: ['type'],
    registers,
  })
  const writeErrors = new Counter({
    name: 'gateway_audit_write_errors_total',
    help: 'Writes to the audit trail that failed.',
    registers,
  })
  const reloads = new Counter({
    name: 'gateway_config_reloads_total',
    help: 'Configuration files read, by file and result.',
    labelNames: ['file', 'result'],
    registers,
  })
  const lastReload = new Gauge({
    name: 'gateway_config_last_reload_successful',
    help: '1 when the file as it is now is in force, 0 when the last good one is.',
    labelNames: ['file'],
    registers,
  })
  let expiry: Gauge | undefined
  return {
    certificateExpiry: (notAfterSeconds) => {
      // Without an HTTPS listener a sample would say that a certificate expired in 1970.
      expiry ??= new Gauge({
        name: 'gateway_tls_certificate_expiry_timestamp_seconds',
        help: 'When the certificate of the HTTPS listener expires, in seconds since the epoch.',
        registers,
      })
      expiry.set(notAfterSeconds)
    },
    authDecision: (method, outcome) => auth.inc({ method, outcome }),
    limitDecision: (limit, decision) => limits.inc({ limit, decision }),
    auditRecord: (type) => records.inc({ type }),
    auditWriteError: () => writeErrors.inc(),
    configReload: (file, result) => {
      reloads.inc({ file, result })
      lastReload.set({ file }, result === 'success' ? 1 : 0)
    },
  }
}
