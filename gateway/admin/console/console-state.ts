import type { Settings } from '../../config/settings.ts'
import type { NearestCallers, RowUse } from '../../limits/nearest-callers.ts'
import type { ConfigReport, PartInForce } from '../config-in-force.ts'
import type { Metrics } from '../metrics.ts'
import { perSecond, quantileMs, type Totals } from './totals.ts'
import type {
  AuditState,
  CertificateState,
  ConfigState,
  ConsoleState,
  Count,
  LimitState,
  ProcessState,
  RouteState,
  SharedStoreState,
  Shown,
  UpstreamState,
  VouchState,
} from './wire.ts'

/** Rows of one table; what an operator has to see comes first. */
const MAX_ROWS = 50

const MAX_FAULTS = 5

export interface ConsoleSources {
  readonly metrics: Metrics
  readiness(): string | undefined
  degradation(): string | undefined
  config(): ConfigReport
}

interface Look {
  readonly sources: ConsoleSources
  readonly callers: NearestCallers
  readonly totals: Totals
  /** About a minute ago. */
  readonly past: Totals
}

/** Everything but the plots. A metric that is not in use is left out. */
export function consoleState(look: Look): ConsoleState {
  const { sources, callers, totals, past } = look
  const { metrics } = sources
  const config = sources.config()
  const unready = sources.readiness()
  const degraded = sources.degradation()
  const sharedStore = sharedStoreOf(look)
  const certificate = certificateOf(config.parts.certificates)
  return {
    version: config.version,
    node: process.version,
    uptimeSeconds: Math.floor(process.uptime()),
    ...(unready !== undefined && { unready }),
    ...(degraded !== undefined && { degraded }),
    inFlight: metrics.gateway_http_requests_in_flight.value ?? 0,
    tunnels: metrics.gateway_tunnels_open.value ?? 0,
    statuses: countsOf(past, past.statuses, totals, totals.statuses),
    refusals: countsOf(past, past.refusals, totals, totals.refusals),
    routes: routesOf(look),
    limits: limitsOf(callers.look(), look),
    upstreams: upstreamsOf(look),
    stores: metrics.gateway_store_writable.samples().map(({ labels, value }) => ({
      store: String(labels.store),
      writable: value === 1,
    })),
    ...(sharedStore !== undefined && { sharedStore }),
    audit: auditOf(config, look),
    config: configOf(config),
    ...(certificate !== undefined && { certificate }),
    clientTrust: metrics.gateway_tls_client_trust_expiry_timestamp_seconds
      .samples()
      // Infinity: it never expires.
      .filter(({ value }) => Number.isFinite(value))
      .map(({ labels, value }) => ({ what: String(labels.what), untilSeconds: value })),
    issuers: metrics.gateway_issuer_keys_age_seconds.samples().map(({ labels, value }) => ({
      issuer: String(labels.issuer),
      keysAgeSeconds: value,
    })),
    process: processOf(look),
  }
}

type Counts = ReadonlyMap<string, number>

/** The most frequent first; what has never happened is left out. */
function countsOf(past: Totals, before: Counts, now: Totals, after: Counts): Count[] {
  return [...after]
    .filter(([, total]) => total > 0)
    .map(([name, total]) => {
      return { name, total, perSecond: perSecond(before.get(name), total, now.atMs - past.atMs) }
    })
    .sort((one, other) => other.perSecond - one.perSecond || other.total - one.total)
    .slice(0, MAX_ROWS)
}

function shown<Row>(rows: readonly Row[]): Shown<Row> {
  return { rows: rows.slice(0, MAX_ROWS), more: Math.max(0, rows.length - MAX_ROWS) }
}

function routesOf({ totals, past }: Look): Shown<RouteState> {
  const ms = totals.atMs - past.atMs
  const rows = [...totals.routes].map(([route, { requests, errors, latency }]) => {
    const before = past.routes.get(route)
    return {
      route,
      perSecond: perSecond(before?.requests, requests, ms),
      errorsPerSecond: perSecond(before?.errors, errors, ms),
      p95Ms: quantileMs(0.95, before?.latency, latency),
    }
  })
  return shown(rows.sort((one, other) => other.perSecond - one.perSecond))
}

function limitsOf(uses: readonly RowUse[], { totals, past }: Look): Shown<LimitState> {
  const ms = totals.atMs - past.atMs
  const rows = uses.map(({ row, callers, nearest }) => {
    const before = past.decisions.get(row.name)
    const after = totals.decisions.get(row.name)
    const rate = (decision: string) => perSecond(before?.get(decision), after?.get(decision), ms)
    const { name, path, limit, window, per, mode } = row
    return {
      ...{ name, path, limit, window, per, mode, callers, nearest },
      allowedPerSecond: rate('allowed') + rate('uncounted'),
      refusedPerSecond: rate('refused') + rate('shadow_refused') + rate('unavailable'),
    }
  })
  return shown(rows.sort((one, other) => nearness(other) - nearness(one)))
}

function nearness({ limit, nearest }: LimitState): number {
  return (nearest[0]?.hits ?? 0) / Math.max(1, limit)
}

const BREAKERS = ['closed', 'half open', 'open'] as const

function upstreamsOf({ sources: { metrics }, totals, past }: Look): UpstreamState[] {
  const ms = totals.atMs - past.atMs
  const breakers = new Map(
    metrics.gateway_upstream_breaker_state.samples().map(({ labels, value }) => [labels.upstream, value]),
  )
  return metrics.gateway_upstream_healthy.samples().map(({ labels, value }) => {
    const upstream = String(labels.upstream)
    const latency = totals.upstreamLatency.get(upstream)
    const before = past.upstreamLatency.get(upstream)
    const breaker = BREAKERS[breakers.get(upstream) ?? -1]
    return {
      upstream,
      healthy: value === 1,
      ...(breaker !== undefined && { breaker }),
      perSecond: perSecond(before?.counts.at(-1), latency?.counts.at(-1), ms),
      p95Ms: latency === undefined ? null : quantileMs(0.95, before, latency),
    }
  })
}

function sharedStoreOf({ sources: { metrics }, totals, past }: Look): SharedStoreState | undefined {
  const { storeLatency, atMs } = totals
  const open = metrics.gateway_store_breaker_open.value
  if (open === undefined) return undefined
  return {
    away: open > 0,
    roundTripsPerSecond: perSecond(
      past.storeLatency.counts.at(-1),
      storeLatency.counts.at(-1),
      atMs - past.atMs,
    ),
    p95Ms: quantileMs(0.95, past.storeLatency, storeLatency),
    outages: metrics.gateway_store_outages_total.value ?? 0,
    unsentSessions: metrics.gateway_store_unsent_sessions.value ?? 0,
  }
}

function auditOf({ parts }: ConfigReport, { sources: { metrics }, totals, past }: Look): AuditState {
  const { audit } = { ...parts.gateway?.settings } as Partial<Pick<Settings, 'audit'>>
  return {
    file: audit?.file ?? '',
    durability: audit?.durability ?? '',
    writable: metrics.gateway_audit_writable.value !== 0,
    recordsPerSecond: perSecond(past.auditRecords, totals.auditRecords, totals.atMs - past.atMs),
    pending: metrics.gateway_audit_records_pending.value ?? 0,
    writeErrors: metrics.gateway_audit_write_errors_total.value ?? 0,
    ...sealsOf(metrics),
    unshipped: metrics.gateway_audit_unshipped_segments.value ?? 0,
  }
}

function sealsOf(metrics: Metrics): Pick<AuditState, 'seals' | 'witnesses' | 'stamps'> {
  const records = metrics.gateway_audit_tree_size.value
  const witnesses = vouchOf(
    metrics.gateway_audit_witness_lag_seconds.value,
    metrics.gateway_audit_witness_interval_seconds.value,
  )
  const stamps = vouchOf(
    metrics.gateway_audit_stamp_lag_seconds.value,
    metrics.gateway_audit_stamp_interval_seconds.value,
  )
  return {
    ...(records !== undefined && {
      seals: {
        records,
        lastAtSeconds: metrics.gateway_audit_last_seal_timestamp_seconds.value ?? 0,
        lagSeconds: metrics.gateway_audit_seal_lag_seconds.value ?? 0,
        gaps: metrics.gateway_audit_seal_gaps_total.value ?? 0,
      },
    }),
    ...(witnesses !== undefined && { witnesses }),
    ...(stamps !== undefined && { stamps }),
  }
}

function vouchOf(lagSeconds: number | undefined, everySeconds: number | undefined): VouchState | undefined {
  return lagSeconds === undefined || everySeconds === undefined ? undefined : { lagSeconds, everySeconds }
}

function configOf({ hash, parts }: ConfigReport): ConfigState {
  return {
    hash,
    parts: Object.entries(parts).map(([part, { file, hash: own, sinceMs, lastReload }]) => ({
      part,
      file,
      hash: own,
      sinceMs,
      ...(lastReload !== undefined && {
        lastReload: {
          atMs: lastReload.atMs,
          result: lastReload.result,
          faults: lastReload.faults.slice(0, MAX_FAULTS),
          needsRestart: lastReload.needsRestart,
        },
      }),
    })),
  }
}

function certificateOf(part: PartInForce | undefined): CertificateState | undefined {
  const [row] = part?.rows ?? []
  if (row === undefined) return undefined
  const { certificate, clientAuthorities } = row as Pick<CertificateState, 'clientAuthorities'> & {
    readonly certificate: Omit<CertificateState, 'clientAuthorities'>
  }
  const { subject, thumbprint, notAfterSeconds } = certificate
  return { subject, thumbprint, notAfterSeconds, clientAuthorities }
}

function processOf({ totals, past }: Look): ProcessState {
  return {
    loopLagP99Ms: quantileMs(0.99, past.loopLag, totals.loopLag),
    cpuCores: perSecond(past.cpuSeconds, totals.cpuSeconds, totals.atMs - past.atMs),
    memoryBytes: process.memoryUsage.rss(),
  }
}
