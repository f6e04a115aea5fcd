import type { Maintenance, Route } from '../../config/settings.ts'
import { REFUSALS, type RefusalCode } from '../../refusals.ts'
import { plural } from '../../terminal/printable.ts'
import type { Families } from '../metric-table.ts'
import type { Metrics } from '../metrics.ts'
import { perSecond, quantileMs, type Totals } from './totals.ts'
import type { AttentionLine } from './wire.ts'

interface Condition {
  readonly alert: string
  readonly severity: AttentionLine['severity']
  /** The expression of the Prometheus rule, without parts that need earlier samples. */
  readonly expression: string
  readonly metric: keyof Families
  readonly isOf: (labels: readonly string[]) => boolean
  readonly holds: (value: number, nowSeconds: number) => boolean
  readonly isTime: boolean
  /** True when the value is how long the condition has held. */
  readonly isAge: boolean
  readonly says: string
}

const EXPRESSION = /^(\w+)(?:\{\w+(!?)="(\w+)"\})?( - time\(\))? (==|<|>) (\d+)(?: \* (\d+))?$/
const CERTIFICATE = 'gateway_tls_certificate_expiry_timestamp_seconds - time()'
const TRUST = 'gateway_tls_client_trust_expiry_timestamp_seconds'
/** An alert about a share of counts, here over a minute. */
interface Share {
  readonly alert: string
  readonly severity: AttentionLine['severity']
  readonly of: 'decisions' | 'credentials' | 'answers'
  readonly isBad: (outcome: string) => boolean
  readonly isCounted: (outcome: string) => boolean
  /** The rule's bounds. */
  readonly above: { readonly share: number; readonly perSecond: number }
  readonly says: string
  readonly what: string
}

/** Outcomes that CountersignAuthenticationFailures leaves out. */
export const NOT_WRONG =
  'accepted|missing|use_dpop_nonce|.*unavailable|unwritable|full|overloaded|body_too_large|malformed_request'
const IS_NOT_WRONG = new RegExp(`^(?:${NOT_WRONG})$`)
export const SHARES: readonly Share[] = [
  {
    alert: 'UpstreamHangs',
    severity: 'page',
    of: 'answers',
    isBad: (outcome) => outcome === 'none',
    isCounted: () => true,
    above: { share: 0.2, perSecond: 0.1 },
    says: 'Upstream % hangs',
    what: 'its clients gave up waiting for a response',
  },
  {
    alert: 'AuthenticationFailures',
    severity: 'ticket',
    of: 'credentials',
    isBad: (outcome) => !IS_NOT_WRONG.test(outcome),
    isCounted: (outcome) => outcome !== 'missing',
    above: { share: 0.2, perSecond: 0.2 },
    says: 'Credentials are wrong: %',
    what: 'them',
  },
  {
    alert: 'LimitSaturated',
    severity: 'ticket',
    of: 'decisions',
    isBad: (outcome) => outcome === 'refused',
    isCounted: () => true,
    above: { share: 0.2, perSecond: 0.1 },
    says: 'Limit % is saturated',
    what: 'its requests were refused',
  },
]
/** The bounds of CountersignUpstreamSlow, here over a minute. */
const SLOW = { p95Ms: 1000, perSecond: 0.1 } as const
/** A line without new counts for this long is over. */
const QUIET_MS = 10_000
/** CountersignRestarting looks back this long. */
export const RESTARTED_MINUTES = 15
/** CountersignPaymentUnknown looks back this long. */
export const UNKNOWN_MINUTES = 15

/**
 * Alerts of config/prometheus/countersign.rules.yml that need no earlier samples: the worst first, causes before
 * effects. `%` stands for a series' labels.
 */
export const CONDITIONS: readonly Condition[] = [
  rule('page', 'AuditNotWritten', 'gateway_audit_writable == 0', 'The audit trail cannot be written'),
  rule(
    'page',
    'AllUpstreamsDown',
    'gateway_upstream_group_healthy == 0',
    'Group % has no upstream: its requests get 502',
  ),
  rule('page', 'StoreAway', 'gateway_store_breaker_open == 1', 'The shared store is away'),
  rule('page', 'DataNotWritten', 'gateway_store_writable{store!="shared"} == 0', 'Not written to disk: %'),
  rule('page', 'NotReady', 'gateway_ready == 0', 'Not ready'),
  rule('page', 'AuditSealGap', 'gateway_audit_seal_gaps_total > 0', 'Sealed records are gone'),
  rule('page', 'AuditForeign', 'gateway_audit_foreign_bytes_total > 0', 'Others wrote to the trail'),
  rule('page', 'CertificateExpiresNow', `${CERTIFICATE} < 2 * 86400`, 'The certificate expires'),
  rule(
    'page',
    'RevocationListExpires',
    `${TRUST}{what="lists"} - time() < 6 * 3600`,
    'Revocation list expires',
  ),
  rule('page', 'SessionsUnsent', 'gateway_store_unsent_sessions > 0', 'Other gateways miss log-outs'),
  rule('ticket', 'UpstreamDown', 'gateway_upstream_healthy == 0', 'Upstream % is down'),
  rule('ticket', 'BreakerOpen', 'gateway_upstream_breaker_state == 2', 'Circuit breaker of % is open'),
  rule('ticket', 'ReloadFailed', 'gateway_config_last_reload_successful == 0', 'The edit of % is refused'),
  rule('ticket', 'AuditNotSealed', 'gateway_audit_seal_lag_seconds > 60', 'Seals are behind'),
  rule('ticket', 'AuditNotShipped', 'gateway_audit_ship_lag_seconds > 7200', 'Audit files are not copied'),
  rule('ticket', 'CertificateExpiresSoon', `${CERTIFICATE} < 14 * 86400`, 'The certificate expires'),
  rule(
    'ticket',
    'ClientAuthorityExpires',
    `${TRUST}{what="authorities"} - time() < 30 * 86400`,
    'A client authority expires',
  ),
  rule('ticket', 'IssuerKeysStale', 'gateway_issuer_keys_age_seconds > 900', 'Keys of % cannot be fetched'),
]

const SEVERITIES: readonly AttentionLine['severity'][] = ['page', 'ticket', 'notice']
/** Alerts by refusal code. Other `_unavailable` codes belong to CountersignAuthenticationUnavailable. */
const ALERTS_OF_REFUSALS: Readonly<Record<string, string>> = {
  audit_unavailable: 'AuditNotWritten',
  upstream_unavailable: 'BreakerOpen',
  limits_unavailable: 'DataNotWritten',
  idempotency_unavailable: 'DataNotWritten',
  overloaded: 'Overloaded',
  internal_fault: 'InternalFault',
  loop_detected: 'InternalFault',
}
const TICKETS: ReadonlySet<string> = new Set(['BreakerOpen', 'InternalFault'])
/** The bounds of CountersignErrorBudgetBurnsFast, here over a minute. */
export const FAILING = { share: 0.0144, count: 10 } as const
const MOST_NAMED = 3

interface Look {
  readonly metrics: Metrics
  readonly totals: Totals
  readonly past: Totals
  readonly routes: readonly (Pick<Route, 'path'> & {
    readonly screening?: { readonly maintenance?: Pick<Maintenance, 'refusal'> | undefined } | undefined
  })[]
}

/** Sees changes only when `look` is called. */
export class Attention {
  #seen: ReadonlyMap<string, Seen> = new Map()
  #startedMs: number | undefined
  /** Requests that got 409 `idempotency_unknown`, and when the newest was seen, by route. */
  readonly #unknown = new Map<string, { readonly count: number; readonly atMs: number }>()

  look(look: Look): readonly AttentionLine[] {
    const { atMs } = look.totals
    const met = [...conditionsMet(look.metrics, atMs / 1000)]
    const found = [
      ...met,
      ...refusalsOf(look, new Set(met.map(({ alert }) => alert))),
      ...SHARES.flatMap((share) => [...sharesAbove(look, share)]),
      ...requestsFail(look),
      ...upstreamsSlow(look),
      ...closedRoutes(look),
      ...this.#outcomesUnknown(look),
      ...this.#restarted(look),
    ].map((line) => ({ line, seen: seenNow(line, this.#seen.get(line.key), atMs) }))
    this.#seen = new Map(found.map(({ line, seen }) => [line.key, seen]))
    return found
      .flatMap(({ line, seen }) => (line.isTold === true ? [] : [lineOf(line, seen, atMs)]))
      .sort((one, other) => rankOf(one) - rankOf(other))
  }

  *#restarted({ metrics, totals: { atMs } }: Look): Iterable<Found> {
    this.#startedMs = Math.min(this.#startedMs ?? atMs, atMs)
    const cause = metrics.causes.get('process_start_time_seconds')
    if (cause === undefined || atMs - this.#startedMs >= RESTARTED_MINUTES * 60_000) return
    const alert = 'CountersignRestarting'
    yield { key: alert, alert, severity: 'ticket', text: 'Started again after a crash', cause }
  }

  *#outcomesUnknown({ metrics, totals: { keyed, atMs } }: Look): Iterable<Found> {
    const alert = 'CountersignPaymentUnknown'
    for (const [route, outcomes] of keyed) {
      const count = outcomes.get('unknown') ?? 0
      const last = this.#unknown.get(route) ?? { count: 0, atMs: Number.NEGATIVE_INFINITY }
      const lastMs = count > last.count ? atMs : Math.min(last.atMs, atMs)
      this.#unknown.set(route, { count, atMs: lastMs })
      if (atMs - lastMs >= UNKNOWN_MINUTES * 60_000) continue
      const text = `Unknown outcome at ${route}`
      const latest = metrics.causes.get(`gateway_idempotency_total ${route} unknown`) ?? 'see the log'
      const cause = `${count} × 409 idempotency_unknown in all, the last one: ${latest}`
      yield { key: `${alert} ${route}`, alert, severity: 'ticket', text, cause }
    }
  }
}

type Found = Omit<AttentionLine, 'sinceMs' | 'endedMs'> & {
  readonly key: string
  readonly sinceMs?: number
  /** The count since the start, for counted events. */
  readonly count?: number
  /** True when the line of its cause is shown instead. */
  readonly isTold?: boolean
  /** The text once the line is over. */
  readonly past?: string
}

interface Seen {
  readonly count: number | undefined
  readonly isTold: boolean | undefined
  readonly sinceMs: number
  readonly lastMs: number
  /** True when, at the last count, the line of the cause was shown. */
  readonly isExplained: boolean | undefined
}

function seenNow({ count, isTold, sinceMs }: Found, before: Seen | undefined, atMs: number): Seen {
  const isNew = count === undefined || count !== before?.count
  return {
    count,
    isTold,
    // The clock may have been set back.
    sinceMs: Math.min(sinceMs ?? before?.sinceMs ?? atMs, atMs),
    lastMs: isNew ? atMs : before.lastMs,
    isExplained: isTold || (isNew ? before?.isTold : before.isExplained),
  }
}

/** A line is over when its cause is over or nothing was counted for a while. Then it is only a ticket. */
function lineOf({ key, count, isTold, past, ...line }: Found, seen: Seen, atMs: number): AttentionLine {
  const { sinceMs, lastMs } = seen
  if (seen.isExplained !== true && atMs - lastMs < QUIET_MS) return { ...line, sinceMs }
  return { ...line, sinceMs, severity: 'ticket', text: past ?? line.text, endedMs: lastMs }
}

function rankOf({ severity, endedMs }: AttentionLine): number {
  return endedMs === undefined ? SEVERITIES.indexOf(severity) : SEVERITIES.length
}

function* conditionsMet(metrics: Metrics, nowSeconds: number): Iterable<Found> {
  const told = new Set<string>()
  for (const { alert, severity, metric, isOf, holds, isTime, isAge, says } of CONDITIONS) {
    const samples = metrics[metric].samples().map(({ labels, value }) => ({
      values: Object.values(labels).map(String),
      value,
    }))
    const bad = samples.filter(({ values, value }) => isOf(values) && holds(value, nowSeconds))
    for (const { values, value } of bad) {
      const series = [metric, ...values].join(' ')
      // Only the worse of two passed bounds is shown.
      if (told.has(series)) continue
      told.add(series)
      const text = says.replace('%', () => values.join(' '))
      const until = isTime ? { untilMs: value * 1000 } : {}
      const since = isAge && Number.isFinite(value) ? { sinceMs: (nowSeconds - value) * 1000 } : {}
      const line = { alert, severity, text, cause: metrics.causes.get(series) }
      yield { key: `${alert} ${series}`, ...line, ...until, ...since }
    }
  }
}

function* sharesAbove({ metrics, totals, past }: Look, share: Share): Iterable<Found> {
  const { of, isBad, isCounted, above, severity, says, what } = share
  const alert = `Countersign${share.alert}`
  for (const [name, counts] of totals[of]) {
    const rates = [...counts].map(([outcome, count]) => {
      const before = past[of].get(name)?.get(outcome)
      return { outcome, rate: perSecond(before, count, totals.atMs - past.atMs) }
    })
    const sumOf = (counts: Share['isBad']) =>
      rates.reduce((sum, { outcome, rate }) => (counts(outcome) ? sum + rate : sum), 0)
    const bad = sumOf(isBad)
    const part = bad / sumOf(isCounted)
    if (bad <= above.perSecond || part <= above.share) continue
    // Throttled callers had wrong credentials before, and these are the cause.
    const rank = ({ outcome, rate }: (typeof rates)[number]) => (outcome === 'throttled' ? 0 : rate)
    const [worst] = rates
      .filter(({ outcome, rate }) => isBad(outcome) && rate > 0)
      .sort((one, other) => rank(other) - rank(one))
    const throttled = rates.find(({ outcome }) => outcome === 'throttled')?.rate ?? 0
    const causes = [
      `${percentOf(part)} % of ${what} in the last minute${throttled > bad / 2 ? ', most of these only throttled' : ''}`,
      metrics.causes.get(`gateway_auth_decisions_total ${name} ${worst?.outcome}`),
    ]
    const cause = causes.filter(Boolean).join(': ')
    const count = [...counts].reduce((sum, [outcome, one]) => (isBad(outcome) ? sum + one : sum), 0)
    yield { key: `${alert} ${name}`, alert, severity, text: says.replace('%', () => name), cause, count }
  }
}

function* upstreamsSlow({ totals, past }: Look): Iterable<Found> {
  const alert = 'CountersignUpstreamSlow'
  for (const [upstream, after] of totals.upstreamLatency) {
    const before = past.upstreamLatency.get(upstream)
    const rate = perSecond(before?.counts.at(-1), after.counts.at(-1), totals.atMs - past.atMs)
    const p95Ms = quantileMs(0.95, before, after) ?? 0
    if (rate <= SLOW.perSecond || p95Ms <= SLOW.p95Ms) continue
    const text = `Upstream ${upstream} is slow`
    const atBound = after.boundsSeconds.findLastIndex((bound) => bound * 1000 <= SLOW.p95Ms)
    const count = (after.counts.at(-1) ?? 0) - (after.counts[atBound] ?? 0)
    const cause = `its p95 was ${(p95Ms / 1000).toFixed(1)} s in the last minute`
    yield { key: `${alert} ${upstream}`, alert, severity: 'ticket', text, cause, count }
  }
}

/** Finds the last minute's refusals. `told` has the alerts of causes already shown. */
function* refusalsOf({ metrics, totals, past }: Look, told: ReadonlySet<string>): Iterable<Found> {
  for (const [code, count] of totals.refusals) {
    const lately = count - (past.refusals.get(code) ?? 0)
    const own =
      ALERTS_OF_REFUSALS[code] ?? (code.endsWith('_unavailable') ? 'AuthenticationUnavailable' : undefined)
    if (lately <= 0 || own === undefined) continue
    const isOfStore = own === 'DataNotWritten' && metrics.gateway_store_breaker_open.value !== undefined
    const alert = `Countersign${isOfStore ? 'StoreAway' : own}`
    const severity = TICKETS.has(own) ? 'ticket' : 'page'
    const what = `${REFUSALS[code as RefusalCode]?.status} ${code}`
    const causes = [`${lately} in the last minute`, metrics.causes.get(`gateway_refusals_total ${code}`)]
    const line = {
      alert,
      severity,
      text: `Requests get ${what}`,
      cause: causes.filter(Boolean).join(': '),
    } as const
    yield { key: `${alert} ${code}`, ...line, past: `Requests got ${what}`, count, isTold: told.has(alert) }
  }
}

function* closedRoutes({ totals, past, routes }: Look): Iterable<Found> {
  const closed = routes.filter(({ screening }) => screening?.maintenance !== undefined)
  if (closed.length === 0) return
  const paths = closed.slice(0, MOST_NAMED).map(({ path }) => path)
  const more = closed.length > MOST_NAMED ? ` and ${closed.length - MOST_NAMED} more` : ''
  const which = closed.length === routes.length ? 'all routes' : `${paths.join(', ')}${more}`
  const refused = (totals.refusals.get('maintenance') ?? 0) - (past.refusals.get('maintenance') ?? 0)
  const purposes = new Set(closed.map(({ screening }) => screening?.maintenance?.refusal.detail))
  const cause = `${plural(refused, 'request')} refused in the last minute; purpose: ${[...purposes].slice(0, MOST_NAMED).join(' / ')}`
  const alert = 'Maintenance'
  yield { key: alert, alert, severity: 'notice', text: `Maintenance is on: ${which}`, cause }
}

/** 501 and the responses of routes closed for maintenance are no failures. */
function* requestsFail({ totals, past }: Look): Iterable<Found> {
  const alert = 'CountersignErrorBudgetBurnsFast'
  const lately = (of: 'statuses' | 'refusals' | 'upstreamErrors') =>
    [...totals[of]]
      .map(([name, count]) => ({ name, count: count - (past[of].get(name) ?? 0) }))
      .sort((one, other) => other.count - one.count)
  const sum = (counts: ReturnType<typeof lately>) => counts.reduce((all, { count }) => all + count, 0)
  const [statuses, refusals] = [lately('statuses'), lately('refusals')]
  const failures = statuses.filter(({ name }) => name.startsWith('5') && name !== '501')
  const failed = sum(failures) - sum(refusals.filter(({ name }) => name === 'maintenance'))
  const share = failed / sum(statuses)
  if (failed <= FAILING.count || share <= FAILING.share) return
  const refusedWith = (status: number) =>
    refusals.filter(({ name }) => REFUSALS[name as RefusalCode]?.status === status)
  const parts = failures
    .flatMap(({ name, count }) => {
      const refused = refusedWith(Number(name))
      return [...refused, { name: `${name} of the service`, count: count - sum(refused) }]
    })
    .filter(({ name, count }) => count > 0 && name !== 'maintenance')
    .sort((one, other) => other.count - one.count)
    .map(({ name, count }) => ({ name, percent: percentOf(count / failed) }))
  const [first] = parts
  const most =
    first !== undefined && first.percent > 50
      ? `mostly ${first.name}`
      : `of these ${parts
          .slice(0, MOST_NAMED)
          .map(({ name, percent }) => `${percent} % ${name}`)
          .join(', ')}`
  const errors = lately('upstreamErrors')
  const [worst = { name: '', count: 0 }] = errors
  const blamed =
    worst.count * 2 > Math.max(failed, sum(errors))
      ? `; ${percentOf(worst.count / sum(errors))} % of the errors of upstreams are of ${worst.name}`
      : ''
  const cause = `${percentOf(share)} % got 5xx in the last minute, ${most}${blamed}`
  const count = failures.reduce((all, { name }) => all + (totals.statuses.get(name) ?? 0), 0)
  yield { key: alert, alert, severity: 'page', text: 'Requests fail', past: 'Requests failed', cause, count }
}

function percentOf(share: number): number {
  return Math.round(share * 100)
}

function rule(severity: Condition['severity'], name: string, expression: string, says: string): Condition {
  const [, metric = '', not, label, isTime, operator, factor, other = 1] = EXPRESSION.exec(expression) ?? []
  const bound = Number(factor) * Number(other)
  const sign = { '==': 0, '<': -1, '>': 1 }[operator as '==' | '<' | '>']
  return {
    alert: `Countersign${name}`,
    severity,
    expression,
    metric: metric as keyof Families,
    isOf: (labels) => label === undefined || labels.includes(label) === (not === ''),
    holds: (value, now) => Math.sign(value - (isTime === undefined ? 0 : now) - bound) === sign,
    isTime: isTime !== undefined,
    isAge: /_(?:age|lag)_seconds$/.test(metric),
    says,
  }
}
