import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import fc from 'fast-check'
import { parse } from 'yaml'
import { REFUSALS, refusal } from '../../refusals.ts'
import { createMetrics } from '../metrics.ts'
import {
  Attention,
  CONDITIONS,
  FAILING,
  NOT_WRONG,
  RESTARTED_MINUTES,
  SHARES,
  UNKNOWN_MINUTES,
} from './attention.ts'
import { totalsOf } from './totals.ts'

interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly labels?: { readonly severity: string }
}

const FILE = new URL('../../../config/prometheus/countersign.rules.yml', import.meta.url)
const rules = (parse(readFileSync(FILE, 'utf8')).groups as { rules: Rule[] }[]).flatMap(
  (group) => group.rules,
)
const ruleOf = (alert: string) => rules.find((rule) => rule.alert === alert)

/** Gives the lines for metrics that a test sets. Each look counts since the look before, or since the start. */
function watching({ fromStart = false } = {}) {
  const metrics = createMetrics({ version: '1' })
  const attention = new Attention()
  let past = totalsOf(metrics, 0)
  return {
    metrics,
    lines: (atMs: number, routes: Parameters<Attention['look']>[0]['routes'] = []) => {
      const totals = totalsOf(metrics, atMs)
      const lines = attention.look({ metrics, totals, past, routes })
      if (!fromStart) past = totals
      return lines
    },
  }
}

test('each condition has the expression and the severity of the rule of its alert', () => {
  for (const { alert, severity, expression } of CONDITIONS) {
    const rule = ruleOf(alert)
    const now = rule?.expr.replaceAll(/max_over_time\((\w+)\[2m\]\)/g, '$1') ?? ''
    assert.ok(now.split(' or ').includes(expression), `${alert}: ${expression} in ${rule?.expr}`)
    assert.equal(rule?.labels?.severity, severity, alert)
  }
  for (const { alert, severity, above } of SHARES) {
    const { expr = '', labels } = ruleOf(`Countersign${alert}`) ?? {}
    assert.deepEqual(
      [...expr.matchAll(/ > ([\d.]+)/g)].map(([, bound]) => Number(bound)),
      [above.share, above.perSecond],
      alert,
    )
    assert.equal(severity, labels?.severity, alert)
  }
  const failures = rules.find(({ record }) => record === 'instance_method:gateway_auth_failures:rate5m')
  assert.ok(failures?.expr.includes(`{outcome!~"${NOT_WRONG}"}`))
})

test('the page about the console names each alert that its list does not have', () => {
  const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')
  const source = read('./attention.ts')
  const [, list = ''] =
    /^\| needs attention .* Not here: (.*), and restarts/m.exec(read('../../../docs/operate/console.md')) ??
    []
  const named = list.split(', ').map((name) => name.replaceAll(/`|Countersign/g, ''))
  const left = rules.flatMap(({ alert = '' }) => {
    const name = alert.replace('Countersign', '')
    return name === '' || source.includes(`'${name}'`) || source.includes(`'${alert}'`) ? [] : [name]
  })
  assert.deepEqual(named, left)
})

test('pages come before tickets, and each metric of a condition exists', () => {
  const severities = CONDITIONS.map(({ severity }) => severity)
  assert.deepEqual(severities, severities.toSorted())
  const { metrics, lines } = watching()
  for (const { metric, expression } of CONDITIONS) assert.ok(metrics[metric] !== undefined, expression)
  assert.deepEqual(lines(1000), [])
})

test('a line says since when its condition has held, and only the worse of two passed bounds has a line', () => {
  const { metrics, lines } = watching()
  const untilSeconds = 100 * 86_400
  metrics.gateway_tls_certificate_expiry_timestamp_seconds.set(untilSeconds)
  const at = (daysLeft: number) =>
    lines((untilSeconds - daysLeft * 86_400) * 1000).map(({ alert, sinceMs, untilMs }) => [
      alert,
      sinceMs,
      untilMs,
    ])
  const ms = (daysLeft: number) => (untilSeconds - daysLeft * 86_400) * 1000
  assert.deepEqual(at(15), [])
  const soon = ['CountersignCertificateExpiresSoon', ms(13), untilSeconds * 1000]
  assert.deepEqual(at(13), [soon])
  assert.deepEqual(at(12), [soon])
  assert.deepEqual(at(1), [['CountersignCertificateExpiresNow', ms(1), untilSeconds * 1000]])
  metrics.gateway_tls_certificate_expiry_timestamp_seconds.set(untilSeconds * 2)
  assert.deepEqual(at(0), [])
})

test('seals that are behind are told with the fault of the sealer', () => {
  const { metrics, lines } = watching()
  metrics.gateway_audit_seal_lag_seconds.set(61)
  metrics.causes.set('gateway_audit_seal_lag_seconds', 'EACCES: permission denied, open')
  const [line] = lines(81_000)
  assert.deepEqual(line, {
    alert: 'CountersignAuditNotSealed',
    severity: 'ticket',
    text: 'Seals are behind',
    cause: 'EACCES: permission denied, open',
    sinceMs: 20_000,
  })
})

test('old keys are told with the time of the last fetch that succeeded, and the fault of the last one', () => {
  const { metrics, lines } = watching()
  metrics.gateway_issuer_keys_age_seconds.set(1000, 'https://a.example')
  metrics.gateway_issuer_keys_age_seconds.set(Number.POSITIVE_INFINITY, 'https://b.example')
  metrics.causes.set('gateway_issuer_keys_age_seconds https://a.example', 'connect ECONNREFUSED')
  assert.deepEqual(
    lines(1_000_000).map(({ text, cause, sinceMs }) => [text, cause, sinceMs]),
    [
      ['Keys of https://a.example cannot be fetched', 'connect ECONNREFUSED', 0],
      ['Keys of https://b.example cannot be fetched', undefined, 1_000_000],
    ],
  )
})

test('what is refused for no fault of the caller is told for a minute, with its cause and the alert that fires', () => {
  const codes = Object.entries(REFUSALS).filter(([code]) =>
    /_unavailable$|^overloaded$|^internal_fault$|^loop_detected$/.test(code),
  )
  for (const [code, { status }] of codes) {
    const { metrics, lines } = watching()
    assert.deepEqual(lines(0), [])
    metrics.causes.set(`gateway_refusals_total ${code}`, 'connect ECONNREFUSED')
    for (let i = 0; i < 2; i++) metrics.gateway_refusals_total.count(code)
    const [line, ...others] = lines(60_000)
    assert.deepEqual(others, [])
    assert.equal(line?.text, `Requests get ${status} ${code}`)
    assert.deepEqual([line?.cause, line?.sinceMs], ['2 in the last minute: connect ECONNREFUSED', 60_000])
    const { expr = '', labels } = ruleOf(line?.alert ?? '') ?? {}
    assert.equal(line?.severity, labels?.severity)
    const [, names = ''] = /code=~"\(([\w|]+)\)_unavailable"/.exec(expr) ?? []
    const told = line?.alert === 'CountersignAuthenticationUnavailable'
    assert.equal(names.split('|').includes(code.replace('_unavailable', '')), told, code)
    assert.deepEqual(lines(120_000), [])
  }
})

test('what is refused because a store is away is told once, with the store', () => {
  const { metrics, lines } = watching()
  metrics.gateway_store_breaker_open.set(0)
  lines(0)
  metrics.gateway_refusals_total.count('limits_unavailable')
  assert.deepEqual(
    lines(60_000).map(({ alert, text }) => [alert, text]),
    [['CountersignStoreAway', 'Requests get 503 limits_unavailable']],
  )
  metrics.gateway_store_breaker_open.set(1)
  metrics.gateway_refusals_total.count('limits_unavailable')
  assert.deepEqual(
    lines(120_000).map(({ text }) => text),
    ['The shared store is away'],
  )
})

test('refusals whose cause is over are told as past, with the time of the first, after what goes on', () => {
  const { metrics, lines } = watching({ fromStart: true })
  const found = (second: number) =>
    lines(second * 1000).map(({ text, severity, sinceMs, endedMs }) => [
      ...[text, severity, sinceMs / 1000],
      endedMs === undefined ? undefined : endedMs / 1000,
    ])
  metrics.gateway_audit_writable.set(1)
  assert.deepEqual(found(0), [])
  metrics.gateway_audit_writable.set(0)
  metrics.gateway_refusals_total.count('audit_unavailable')
  const cause = ['The audit trail cannot be written', 'page', 10, undefined]
  assert.deepEqual(found(10), [cause])
  metrics.gateway_refusals_total.count('audit_unavailable')
  assert.deepEqual(found(30), [cause])
  metrics.gateway_refusals_total.count('audit_unavailable')
  metrics.gateway_audit_writable.set(1)
  metrics.gateway_upstream_healthy.set(0, 'http://a')
  const live = ['Upstream http://a is down', 'ticket', 31, undefined]
  const past = ['Requests got 503 audit_unavailable', 'ticket', 10, 31]
  for (const second of [31, 32, 50]) assert.deepEqual(found(second), [live, past])
  metrics.gateway_refusals_total.count('audit_unavailable')
  const again = ['Requests get 503 audit_unavailable', 'page', 10, undefined]
  assert.deepEqual(found(51), [again, live], 'not mended')
})

test('what has not happened for ten seconds is told as past, whether its cause is seen or not', () => {
  const { metrics, lines } = watching({ fromStart: true })
  const found = (second: number) => {
    const told = lines(second * 1000)
    return [...told.map(({ text }) => text), ...told.map(({ endedMs }) => endedMs)]
  }
  assert.deepEqual(found(0), [])
  for (let i = 0; i < 20; i++) {
    metrics.gateway_upstream_request_duration_seconds.observe(10, 'http://b')
    metrics.gateway_refusals_total.count('keys_unavailable')
    metrics.gateway_http_requests_total.count('/*', 'GET', 503)
    metrics.gateway_upstream_unanswered_total.count('http://a')
  }
  const hangs = 'Upstream http://a hangs'
  const slow = 'Upstream http://b is slow'
  const going = ['Requests get 503 keys_unavailable', hangs, 'Requests fail', slow]
  assert.deepEqual(found(20), [...going, ...going.map(() => undefined)])
  metrics.gateway_upstream_unanswered_total.count('http://a')
  metrics.gateway_upstream_request_duration_seconds.observe(0.1, 'http://b')
  assert.deepEqual(found(29), [...going, ...going.map(() => undefined)])
  const over = ['Requests failed', slow]
  const first = 'Requests got 503 keys_unavailable'
  assert.deepEqual(found(30), [hangs, first, ...over, undefined, 20_000, 20_000, 20_000])
  assert.deepEqual(found(39), [first, hangs, ...over, 20_000, 29_000, 20_000, 20_000])
})

test('a limit is saturated when more than a fifth of many requests are refused', () => {
  const { metrics, lines } = watching()
  const count = (decision: string, times: number) => {
    for (let i = 0; i < times; i++) metrics.gateway_rate_limit_decisions_total.count('login', decision)
  }
  count('allowed', 80)
  count('refused', 20)
  assert.deepEqual(lines(60_000), [])
  count('allowed', 79)
  count('refused', 21)
  assert.deepEqual(
    lines(120_000).map(({ text, cause }) => [text, cause]),
    [['Limit login is saturated', '21 % of its requests were refused in the last minute']],
  )
  assert.deepEqual(lines(180_000), [])
})

test('an upstream that does not respond hangs, and one that takes a second for too many is slow', () => {
  const { metrics, lines } = watching()
  const times = (count: number, run: () => void) => {
    for (let i = 0; i < count; i++) run()
  }
  const respond = (seconds: number, upstream: string) =>
    metrics.gateway_upstream_request_duration_seconds.observe(seconds, upstream)
  for (const name of ['a', 'b', 'c']) metrics.gateway_upstream_unanswered_total.begin(name)
  lines(0)
  times(7, () => metrics.gateway_upstream_unanswered_total.count('a'))
  times(20, () => metrics.gateway_upstream_unanswered_total.count('b'))
  times(80, () => respond(0.1, 'b'))
  times(94, () => respond(0.1, 'c'))
  times(6, () => respond(10, 'c'))
  assert.deepEqual(
    lines(60_000).map(({ alert, severity, text, cause }) => {
      assert.equal(severity, ruleOf(alert)?.labels?.severity)
      return [alert, text, cause]
    }),
    [
      [
        'CountersignUpstreamHangs',
        'Upstream a hangs',
        '100 % of its clients gave up waiting for a response in the last minute',
      ],
      ['CountersignUpstreamSlow', 'Upstream c is slow', 'its p95 was 5.8 s in the last minute'],
    ],
  )
})

test('requests that fail are told with what most of them got, except at routes closed for maintenance', () => {
  const { expr = '', labels } = ruleOf('CountersignErrorBudgetBurnsFast') ?? {}
  assert.ok(expr.includes(`> ${FAILING.share * 1000} * 0.001`) && expr.includes(`> ${FAILING.count}`), expr)
  const { metrics, lines } = watching()
  const count = (status: number, times: number, code?: string) => {
    for (let i = 0; i < times; i++) {
      metrics.gateway_http_requests_total.count('/*', 'GET', status)
      if (code !== undefined) metrics.gateway_refusals_total.count(code)
    }
  }
  const found = (atMs: number) =>
    lines(atMs).map(({ alert, severity, text, cause }) => {
      assert.equal(severity, labels?.severity)
      return [alert, text, cause]
    })
  const told = (cause: string) => ['CountersignErrorBudgetBurnsFast', 'Requests fail', cause]
  assert.deepEqual(found(0), [])
  count(200, 80)
  count(504, 20, 'upstream_timeout')
  count(503, 50, 'maintenance')
  assert.deepEqual(found(60_000), [told('13 % got 5xx in the last minute, mostly upstream_timeout')])
  count(200, 100)
  count(500, 60)
  count(502, 40, 'upstream_broken')
  assert.deepEqual(found(120_000), [told('50 % got 5xx in the last minute, mostly 500 of the service')])
  count(200, 1000)
  count(500, 14)
  assert.deepEqual(found(180_000), [])
  count(504, 40, 'upstream_timeout')
  count(503, 20, 'overloaded')
  count(503, 15)
  count(503, 50, 'maintenance')
  count(502, 13, 'upstream_unreachable')
  count(500, 12)
  const shares = '40 % upstream_timeout, 20 % overloaded, 15 % 503 of the service'
  const [failing] = found(200_000).filter(([alert]) => alert === 'CountersignErrorBudgetBurnsFast')
  assert.deepEqual(failing, told(`67 % got 5xx in the last minute, of these ${shares}`))
  count(500, 10)
  assert.deepEqual(found(240_000), [])
})

test('requests that fail are told with the upstream that has most of the errors', () => {
  const { metrics, lines } = watching()
  const attempt = (upstream: string, outcome: string, times: number) => {
    for (let i = 0; i < times; i++) metrics.gateway_upstream_attempts_total.count(upstream, outcome)
  }
  const causeAt = (atMs: number) => {
    for (let i = 0; i < 40; i++) metrics.gateway_http_requests_total.count('/*', 'GET', i < 20 ? 200 : 500)
    return lines(atMs).find(({ text }) => text === 'Requests fail')?.cause
  }
  const mostly = '50 % got 5xx in the last minute, mostly 500 of the service'
  attempt('http://a', 'answered', 20)
  attempt('http://b', '5xx', 15)
  attempt('http://b', 'failed', 4)
  attempt('http://a', '5xx', 1)
  assert.equal(causeAt(60_000), `${mostly}; 95 % of the errors of upstreams are of http://b`)
  attempt('http://b', '5xx', 10)
  attempt('http://a', 'failed', 10)
  assert.equal(causeAt(120_000), mostly, 'no upstream has most of the errors')
})

test('maintenance that is on is told last, with its routes and what it refused, until it is off', () => {
  const { metrics, lines } = watching()
  const closed = (path: string, detail = 'Back at 06:00 UTC') => ({
    path,
    screening: { maintenance: { refusal: refusal('maintenance', { detail }) } },
  })
  const [open, one, two] = [{ path: '/open' }, closed('/one'), closed('/two/*')]
  assert.deepEqual(lines(0, [open]), [])
  for (let i = 0; i < 30; i++) {
    metrics.gateway_http_requests_total.count('/one', 'GET', 503)
    metrics.gateway_refusals_total.count('maintenance')
  }
  const line = (text: string, times: number, purposes = 'Back at 06:00 UTC') => ({
    ...{ alert: 'Maintenance', severity: 'notice', text: `Maintenance is on: ${text}`, sinceMs: 60_000 },
    cause: `${times} requests refused in the last minute; purpose: ${purposes}`,
  })
  assert.deepEqual(lines(60_000, [one, two]), [line('all routes', 30)])
  assert.deepEqual(lines(90_000, [one, two, closed('/three', 'Gone')]), [
    line('all routes', 0, 'Back at 06:00 UTC / Gone'),
  ])
  metrics.gateway_config_last_reload_successful.set(0, 'limits.json')
  const [worse, ...told] = lines(120_000, [open, one, two])
  assert.deepEqual([worse?.severity, ...told], ['ticket', line('/one, /two/*', 0)])
  const many = Array.from({ length: 22 }, (_, i) => closed(`/${i}`))
  assert.match(lines(180_000, [open, ...many]).at(-1)?.text ?? '', /: \/0, \/1, \/2 and 19 more$/)
  metrics.gateway_config_last_reload_successful.set(1, 'limits.json')
  assert.deepEqual(lines(240_000, [open]), [])
})

test('wrong credentials are told when they are a fifth of many, and missing ones do not count', () => {
  const { metrics, lines } = watching()
  const count = (outcome: string, times: number) => {
    for (let i = 0; i < times; i++) metrics.gateway_auth_decisions_total.count('bearer', outcome)
  }
  lines(0)
  count('accepted', 60)
  count('missing', 1000)
  count('keys_unavailable', 20)
  count('invalid', 10)
  count('expired', 10)
  assert.deepEqual(lines(60_000), [])
  count('accepted', 79)
  count('invalid', 19)
  count('expired', 2)
  metrics.causes.set('gateway_auth_decisions_total bearer invalid', 'the signature does not fit')
  metrics.causes.set('gateway_auth_decisions_total bearer expired', 'exp was 11 s ago')
  assert.deepEqual(
    lines(120_000).map(({ alert, text, cause }) => [alert, text, cause]),
    [
      [
        'CountersignAuthenticationFailures',
        'Credentials are wrong: bearer',
        '21 % of them in the last minute: the signature does not fit',
      ],
    ],
  )
  // A throttled caller had wrong credentials before.
  const throttled = '100 % of them in the last minute, most of these only throttled'
  metrics.causes.set('gateway_auth_decisions_total bearer throttled', 'too many bad credentials')
  count('throttled', 200)
  count('expired', 20)
  assert.equal(lines(180_000)[0]?.cause, `${throttled}: exp was 11 s ago`)
  count('throttled', 200)
  assert.equal(lines(240_000)[0]?.cause, `${throttled}: too many bad credentials`)
})

test('a start after a crash is told for as long as the alert about starts looks back', () => {
  const { metrics, lines } = watching()
  assert.ok(ruleOf('CountersignRestarting')?.expr.includes(`[${RESTARTED_MINUTES}m]`))
  metrics.causes.set('process_start_time_seconds', 'it was killed')
  const minutes = (at: number) =>
    lines(at * 60_000).map(({ alert, cause, sinceMs }) => [alert, cause, sinceMs / 60_000])
  assert.deepEqual(minutes(5), [['CountersignRestarting', 'it was killed', 5]])
  assert.deepEqual(minutes(19), [['CountersignRestarting', 'it was killed', 5]])
  assert.deepEqual(minutes(20), [])
})

test('a clock that is set back lengthens no line, and no line begins in the future', () => {
  const { metrics, lines } = watching()
  metrics.causes.set('process_start_time_seconds', 'it was killed')
  metrics.gateway_audit_writable.set(0)
  metrics.gateway_idempotency_total.count('/transfers', 'unknown')
  const alerts = ['CountersignAuditNotWritten', 'CountersignPaymentUnknown', 'CountersignRestarting']
  const minutes = (at: number) =>
    lines(at * 60_000).map(({ alert, sinceMs }) => [alert, sinceMs / 60_000] as const)
  assert.deepEqual(
    minutes(120),
    alerts.map((alert) => [alert, 120]),
  )
  assert.deepEqual(
    minutes(60),
    alerts.map((alert) => [alert, 60]),
  )
  assert.deepEqual(minutes(75), [['CountersignAuditNotWritten', 60]])
})

test('an unknown outcome is told for as long as the alert looks back, and again with the next one', () => {
  const { metrics, lines } = watching()
  const { expr = '', labels } = ruleOf('CountersignPaymentUnknown') ?? {}
  assert.ok(expr.includes(`{outcome="unknown"}[${UNKNOWN_MINUTES}m]`), expr)
  const count = (outcome: string) => metrics.gateway_idempotency_total.count('/transfers', outcome)
  const minutes = (at: number) =>
    lines(at * 60_000).map(({ alert, severity, text, cause, sinceMs }) => {
      assert.deepEqual([alert, severity], ['CountersignPaymentUnknown', labels?.severity])
      assert.equal(text, 'Unknown outcome at /transfers')
      return [cause, sinceMs / 60_000]
    })
  metrics.gateway_idempotency_total.begin('/transfers', 'unknown')
  for (const outcome of ['begun', 'replayed', 'in_progress']) count(outcome)
  assert.deepEqual(minutes(0), [])
  count('unknown')
  assert.deepEqual(minutes(1), [['1 × 409 idempotency_unknown in all, the last one: see the log', 1]])
  metrics.causes.set('gateway_idempotency_total /transfers unknown', 'the request 1')
  count('unknown')
  for (const at of [10, 24])
    assert.deepEqual(minutes(at), [['2 × 409 idempotency_unknown in all, the last one: the request 1', 1]])
  assert.deepEqual(minutes(25), [])
  count('unknown')
  assert.deepEqual(minutes(30), [['3 × 409 idempotency_unknown in all, the last one: the request 1', 30]])
})

test('each upstream that is down has a line, and a group without a healthy upstream has one above', () => {
  const upstreams = fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), fc.boolean(), { minKeys: 1, maxKeys: 5 })
  fc.assert(
    fc.property(upstreams, (healthy) => {
      const { metrics, lines } = watching()
      for (const [name, isUp] of Object.entries(healthy)) {
        metrics.gateway_upstream_healthy.set(isUp ? 1 : 0, `http://${name}`)
        metrics.causes.set(`gateway_upstream_healthy http://${name}`, `connect ECONNREFUSED ${name}`)
      }
      const isUp = Object.values(healthy).some(Boolean)
      metrics.gateway_upstream_group_healthy.set(1, 'default')
      metrics.gateway_upstream_group_healthy.set(isUp ? 1 : 0, 'payments')
      const down = Object.keys(healthy).filter((name) => !healthy[name])
      const all = isUp ? [] : ['CountersignAllUpstreamsDown']
      const found = lines(1000)
      assert.deepEqual(
        found.map(({ alert }) => alert),
        [...all, ...down.map(() => 'CountersignUpstreamDown')],
      )
      for (const [i, name] of down.entries())
        assert.equal(found[all.length + i]?.cause, `connect ECONNREFUSED ${name}`)
    }),
  )
})
