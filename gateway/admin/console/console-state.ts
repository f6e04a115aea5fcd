import type { NearestCallers, RowUse } from '../../limits/nearest-callers.ts'
import type { ConfigReport, PartInForce } from '../config-in-force.ts'
import type { MetricsSnapshot } from '../metrics.ts'
import { perSecond, quantileMs } from './rates.ts'
import { type Totals, valuesOf } from './totals.ts'
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

/** Of one edit. */
const MAX_FAULTS = 5

/** What the console shows besides metrics. */
export interface ConsoleSources {
  /** All metrics. */
  collect(): Promise<MetricsSnapshot>
  /** Why the gateway is not ready; undefined when it is. */
  readiness(): string | undefined
  degradation(): string | undefined
  config(): ConfigReport
}

interface Look {
  readonly sources: ConsoleSources
  readonly callers: NearestCallers
  readonly snapshot: MetricsSnapshot
  readonly totals: Totals
  /** About a minute ago. */
  readonly past: Totals
}

/** Everything but the plots. A metric that this gateway does not have is left out. */
export function consoleState(look: Look): ConsoleState {
  const { sources, callers, snapshot, totals, past } = look
  const config = sources.config()
  const { single } = totals
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
    inFlight: single.get('gateway_http_requests_in_flight') ?? 0,
    tunnels: single.get('gateway_tunnels_open') ?? 0,
    statuses: countsOf(past, past.statuses, totals, totals.statuses),
    refusals: countsOf(past, past.refusals, totals, totals.refusals),
    routes: routesOf(look),
    limits: limitsOf(callers.look(), look),
    upstreams: upstreamsOf(look),
    stores: valuesOf(snapshot, 'gateway_store_writable').map(({ labels, value }) => ({
      store: String(labels.store),
      writable: value === 1,
    })),
    ...(sharedStore !== undefined && { sharedStore }),
    audit: auditOf(config, look),
    config: configOf(config),
    ...(certificate !== undefined && { certificate }),
    clientTrust: valuesOf(snapshot, 'gateway_tls_client_trust_expiry_timestamp_seconds')
      // Infinity: it never expires.
      .filter(({ value }) => Number.isFinite(value))
      .map(({ labels, value }) => ({ what: String(labels.what), untilSeconds: value })),
    issuers: valuesOf(snapshot, 'gateway_issuer_keys_age_seconds').map(({ labels, value }) => ({
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

/** By the values of `gateway_upstream_breaker_state`. */
const BREAKERS = ['closed', 'half open', 'open'] as const

function upstreamsOf({ snapshot, totals, past }: Look): UpstreamState[] {
  const ms = totals.atMs - past.atMs
  const breakers = new Map(
    valuesOf(snapshot, 'gateway_upstream_breaker_state').map(({ labels, value }) => [labels.upstream, value]),
  )
  return valuesOf(snapshot, 'gateway_upstream_healthy').map(({ labels, value }) => {
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

function sharedStoreOf({ totals, past }: Look): SharedStoreState | undefined {
  const { single, storeLatency, atMs } = totals
  const open = single.get('gateway_store_breaker_open')
  if (open === undefined) return undefined
  return {
    away: open > 0,
    roundTripsPerSecond: perSecond(
      past.storeLatency.counts.at(-1),
      storeLatency.counts.at(-1),
      atMs - past.atMs,
    ),
    p95Ms: quantileMs(0.95, past.storeLatency, storeLatency),
    outages: single.get('gateway_store_outages_total') ?? 0,
    unsentSessions: single.get('gateway_store_unsent_sessions') ?? 0,
  }
}

function auditOf({ parts }: ConfigReport, { totals, past }: Look): AuditState {
  const { auditFile, auditDurability } = { ...parts.gateway?.settings } as Record<string, unknown>
  const { single } = totals
  return {
    file: String(auditFile ?? ''),
    durability: String(auditDurability ?? ''),
    writable: single.get('gateway_audit_writable') !== 0,
    recordsPerSecond: perSecond(past.auditRecords, totals.auditRecords, totals.atMs - past.atMs),
    pending: single.get('gateway_audit_records_pending') ?? 0,
    writeErrors: single.get('gateway_audit_write_errors_total') ?? 0,
    ...sealsOf(single),
    unshipped: single.get('gateway_audit_unshipped_segments') ?? 0,
  }
}

function sealsOf(single: Totals['single']): Pick<AuditState, 'seals' | 'witnesses' | 'stamps'> {
  const records = single.get('gateway_audit_tree_size')
  const witnesses = vouchOf(
    single.get('gateway_audit_witness_lag_seconds'),
    single.get('gateway_audit_witness_interval_seconds'),
  )
  const stamps = vouchOf(
    single.get('gateway_audit_stamp_lag_seconds'),
    single.get('gateway_audit_stamp_interval_seconds'),
  )
  return {
    ...(records !== undefined && {
      seals: {
        records,
        lastAtSeconds: single.get('gateway_audit_last_seal_timestamp_seconds') ?? 0,
        lagSeconds: single.get('gateway_audit_seal_lag_seconds') ?? 0,
        gaps: single.get('gateway_audit_seal_gaps_total') ?? 0,
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

/** The summary of the certificate, as the configuration in force has it. */
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
  const { single } = totals
  const cpu = 'process_cpu_seconds_total'
  return {
    loopLagP99Ms: quantileMs(0.99, past.loopLag, totals.loopLag),
    cpuCores: perSecond(past.single.get(cpu), single.get(cpu), totals.atMs - past.atMs),
    memoryBytes: single.get('process_resident_memory_bytes') ?? 0,
  }
}
