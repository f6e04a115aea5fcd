import { hostname } from 'node:os'
import type { Settings } from '../../config/settings.ts'
import { groupsInUse } from '../../config/upstreams/group-rules.ts'
import { MAX_BYTES, MAX_KEYS } from '../../idempotency/key-table.ts'
import type { NearestCallers } from '../../limits/nearest-callers.ts'
import type { ConfigReport, PartInForce } from '../config-in-force.ts'
import type { Metrics } from '../metrics.ts'
import { perSecond, quantileMs, type Totals } from './totals.ts'
import type { AttentionLine, CertificateState, ConsoleState, Count, LimitState, Shown } from './wire.ts'

/** The most rows of a table, with the important ones first. */
const MAX_ROWS = 50
const MAX_FAULTS = 5

export interface ConsoleSources {
  readonly metrics: Metrics
  /** Why the gateway is not ready; undefined when it is. */
  readonly readiness: () => string | undefined
  /** What fails although the gateway is ready. */
  readonly degradation: () => string | undefined
  readonly config: () => ConfigReport
}

interface Look {
  readonly sources: ConsoleSources
  readonly callers: NearestCallers
  readonly totals: Totals
  readonly past: Totals
  readonly attention: readonly AttentionLine[]
}

interface View extends Look {
  readonly metrics: Metrics
  /** Growth per second since `past`. */
  readonly rate: (before: number | undefined, after: number | undefined) => number
}

/** The console's state besides the plots. */
export function consoleState(look: Look): ConsoleState {
  const { sources, totals, past, attention } = look
  const { metrics } = sources
  const config = sources.config()
  const ms = totals.atMs - past.atMs
  const view: View = { ...look, metrics, rate: (before, after) => perSecond(before, after, ms) }
  return {
    version: config.version,
    host: hostname(),
    attention,
    node: process.version,
    uptimeSeconds: Math.floor(process.uptime()),
    unready: sources.readiness(),
    degraded: sources.degradation(),
    inFlight: metrics.gateway_http_requests_in_flight.value ?? 0,
    tunnels: metrics.gateway_tunnels_open.value ?? 0,
    statuses: countsOf(past.statuses, totals.statuses, view),
    refusals: countsOf(past.refusals, totals.refusals, view),
    routes: routesOf(view),
    limits: limitsOf(view),
    idempotency: idempotencyOf(config, view),
    upstreams: upstreamsOf(config, view),
    stores: metrics.gateway_store_writable.samples().map(({ labels, value }) => ({
      store: String(labels.store),
      writable: value === 1,
    })),
    sharedStore: sharedStoreOf(view),
    audit: auditOf(config, view),
    config: configOf(config),
    certificate: certificateOf(config.parts.certificates),
    clientTrust: metrics.gateway_tls_client_trust_expiry_timestamp_seconds
      .samples()
      // Infinity means no expiry.
      .filter(({ value }) => Number.isFinite(value))
      .map(({ labels, value }) => ({ what: String(labels.what), untilSeconds: value })),
    issuers: metrics.gateway_issuer_keys_age_seconds.samples().map(({ labels, value }) => ({
      issuer: String(labels.issuer),
      keysAgeSeconds: Number.isFinite(value) ? value : null,
    })),
    process: {
      loopLagP99Ms: quantileMs(0.99, past.loopLag, totals.loopLag),
      cpuCores: view.rate(past.cpuSeconds, totals.cpuSeconds),
      memoryBytes: process.memoryUsage.rss(),
    },
  }
}

type Counts = ReadonlyMap<string, number>

/** Counts above zero, the most frequent first. */
function countsOf(before: Counts, after: Counts, { rate }: View): Count[] {
  return [...after]
    .filter(([, total]) => total > 0)
    .map(([name, total]) => ({ name, total, perSecond: rate(before.get(name), total) }))
    .sort((one, other) => other.perSecond - one.perSecond || other.total - one.total)
    .slice(0, MAX_ROWS)
}

function shown<Row>(rows: readonly Row[]): Shown<Row> {
  return { rows: rows.slice(0, MAX_ROWS), more: Math.max(0, rows.length - MAX_ROWS) }
}

function routesOf({ totals, past, rate }: View) {
  const rows = [...totals.routes].map(([route, { requests, errors, latency }]) => {
    const before = past.routes.get(route)
    return {
      route,
      perSecond: rate(before?.requests, requests),
      errorsPerSecond: rate(before?.errors, errors),
      p95Ms: quantileMs(0.95, before?.latency, latency),
    }
  })
  return shown(rows.sort((one, other) => other.perSecond - one.perSecond))
}

function limitsOf({ callers: nearestCallers, totals, past, rate }: View) {
  const rows = nearestCallers.look().map(({ row, callers, nearest }) => {
    const before = past.decisions.get(row.name)
    const after = totals.decisions.get(row.name)
    const rateOf = (decision: string) => rate(before?.get(decision), after?.get(decision))
    return {
      name: row.name,
      path: row.path,
      limit: row.limit,
      window: row.window,
      per: row.per,
      mode: row.mode,
      callers,
      nearest,
      allowedPerSecond: rateOf('allowed') + rateOf('uncounted'),
      refusedPerSecond: rateOf('refused') + rateOf('shadow_refused') + rateOf('unavailable'),
    }
  })
  return shown(rows.sort((one, other) => nearness(other) - nearness(one)))
}

function nearness({ nearest: [first] }: Pick<LimitState, 'nearest'>): number {
  return first === undefined ? 0 : first.hits / first.limit
}

function idempotencyOf({ parts }: ConfigReport, view: View): ConsoleState['idempotency'] {
  const rows = (parts.gateway?.rows ?? []) as readonly Pick<Settings['routes'][number], 'idempotency'>[]
  if (!rows.some(({ idempotency }) => idempotency)) return undefined
  const { metrics, past, totals } = view
  const added = (keyed: Totals['keyed']) => {
    const outcomes = new Map<string, number>()
    for (const counts of keyed.values())
      for (const [outcome, count] of counts) outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + count)
    return outcomes
  }
  return {
    outcomes: countsOf(added(past.keyed), added(totals.keyed), view),
    keys: metrics.gateway_idempotency_keys.value,
    bytes: metrics.gateway_idempotency_bytes.value ?? 0,
    maxKeys: MAX_KEYS,
    maxBytes: MAX_BYTES,
  }
}

const BREAKERS = ['closed', 'half open', 'open'] as const

/** Upstreams by group, the default first. An upstream in two groups stands in both, with the worse of its states. */
function upstreamsOf({ parts }: ConfigReport, { metrics, totals, past, rate }: View) {
  const { settings, rows: routes = [] } = { ...parts.gateway }
  if (settings === undefined) return []
  const groups = groupsInUse({ ...settings, routes } as Pick<Settings, 'upstream' | 'upstreams' | 'routes'>)
  const [health, breakers] = (['gateway_upstream_healthy', 'gateway_upstream_breaker_state'] as const).map(
    (name) => new Map(metrics[name].samples().map(({ labels, value }) => [labels.upstream, value])),
  )
  return groups.flatMap(({ name: group, targets }) =>
    targets.map((upstream) => {
      const latency = totals.upstreamLatency.get(upstream)
      const before = past.upstreamLatency.get(upstream)
      const of = (name: 'upstreamAttempts' | 'upstreamErrors') =>
        rate(past[name].get(upstream), totals[name].get(upstream))
      return {
        group,
        upstream,
        errorShare: of('upstreamErrors') / (of('upstreamAttempts') || 1),
        healthy: health?.get(upstream) !== 0,
        breaker: BREAKERS[breakers?.get(upstream) ?? -1],
        perSecond: rate(before?.counts.at(-1), latency?.counts.at(-1)),
        p95Ms: latency === undefined ? null : quantileMs(0.95, before, latency),
      }
    }),
  )
}

function sharedStoreOf({ metrics, totals, past, rate }: View): ConsoleState['sharedStore'] {
  const open = metrics.gateway_store_breaker_open.value
  if (open === undefined) return undefined
  return {
    away: open > 0,
    roundTripsPerSecond: rate(past.storeLatency.counts.at(-1), totals.storeLatency.counts.at(-1)),
    p95Ms: quantileMs(0.95, past.storeLatency, totals.storeLatency),
    outages: metrics.gateway_store_outages_total.value ?? 0,
    unsentSessions: metrics.gateway_store_unsent_sessions.value ?? 0,
  }
}

function auditOf({ parts }: ConfigReport, { metrics, totals, past, rate }: View): ConsoleState['audit'] {
  const { audit } = { ...parts.gateway?.settings } as Partial<Pick<Settings, 'audit'>>
  const records = metrics.gateway_audit_tree_size.value
  return {
    file: audit?.file ?? '',
    durability: audit?.durability ?? '',
    writable: metrics.gateway_audit_writable.value !== 0,
    recordsPerSecond: rate(past.auditRecords, totals.auditRecords),
    pending: metrics.gateway_audit_records_pending.value ?? 0,
    writeErrors: metrics.gateway_audit_write_errors_total.value ?? 0,
    seals:
      records === undefined
        ? undefined
        : {
            records,
            lastAtSeconds: metrics.gateway_audit_last_seal_timestamp_seconds.value ?? 0,
            lagSeconds: metrics.gateway_audit_seal_lag_seconds.value ?? 0,
            gaps: metrics.gateway_audit_seal_gaps_total.value ?? 0,
          },
    witnesses: attestationOf(
      metrics.gateway_audit_witness_lag_seconds.value,
      metrics.gateway_audit_witness_interval_seconds.value,
    ),
    stamps: attestationOf(
      metrics.gateway_audit_stamp_lag_seconds.value,
      metrics.gateway_audit_stamp_interval_seconds.value,
    ),
    unshipped: metrics.gateway_audit_unshipped_segments.value ?? 0,
  }
}

function attestationOf(lagSeconds: number | undefined, everySeconds: number | undefined) {
  return lagSeconds === undefined || everySeconds === undefined ? undefined : { lagSeconds, everySeconds }
}

function configOf({ hash, parts }: ConfigReport): ConsoleState['config'] {
  return {
    hash,
    parts: Object.entries(parts).map(([part, { file, hash: own, sinceMs, lastReload }]) => ({
      part,
      file,
      hash: own,
      sinceMs,
      lastReload: lastReload && { ...lastReload, faults: lastReload.faults.slice(0, MAX_FAULTS) },
    })),
  }
}

function certificateOf(part: PartInForce | undefined): CertificateState | undefined {
  const [row] = part?.rows ?? []
  if (row === undefined) return undefined
  const { certificate, clientAuthorities } = row as Pick<CertificateState, 'clientAuthorities'> & {
    readonly certificate: Omit<CertificateState, 'clientAuthorities'>
  }
  return { ...certificate, clientAuthorities }
}
