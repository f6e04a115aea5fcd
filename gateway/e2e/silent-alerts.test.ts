import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { parse, stringify } from 'yaml'
import { call } from './client.ts'
import { FILES, NO_PROMETHEUS } from './prometheus.ts'
import { startGateway } from './running-gateway.ts'
import { makeTlsSetup } from './secure.ts'
import { startUpstream } from './test-upstream.ts'
import { SteppedClock } from './time-lapse.ts'

/** For the date and the seals, an hour passes in a minute or more. Time stays real for network and fetched keys. */
const FACTOR = 60
const SCRAPE_SECONDS = 15
const SCRAPES = 3600 / SCRAPE_SECONDS
const CALLS_PER_SCRAPE = 6
const CALL_MS = (SCRAPE_SECONDS * 1000) / FACTOR / CALLS_PER_SCRAPE
const LABELS = 'job="countersign",instance="gateway:9090"'
/** Alerts that depend on how busy the machine of the test is. */
const OF_THE_MACHINE: ReadonlySet<string> = new Set(['CountersignEventLoopLag', 'CountersignUpstreamSlow'])
const RULES = join(FILES, 'countersign.rules.yml')

test('an hour of steady traffic raises no alert', { skip: NO_PROMETHEUS }, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-hour-'))
  const startMs = Date.now()
  const clock = new SteppedClock(join(dir, 'clock'), startMs)
  const upstream = await startUpstream((_, res) => res.end('done'))
  const { GATEWAY_TLS_PORT = '', GATEWAY_TLS_CERT = '', GATEWAY_TLS_KEY = '' } = (await makeTlsSetup()).env
  const gateway = await startGateway({
    config: {
      upstream: upstream.url,
      routes: [
        { path: '/open/*', auth: ['none'] },
        { path: '/private', auth: ['bearer'] },
      ],
    },
    limits: [{ path: '/open/limited', limit: 100_000, window: '1h', purpose: 'tests' }],
    env: {
      GATEWAY_TLS_PORT,
      GATEWAY_TLS_CERT,
      GATEWAY_TLS_KEY,
      GATEWAY_AUDIT_SEALS: 'on',
      TIME_LAPSE: String(FACTOR),
      ...clock.env,
      NODE_OPTIONS: `--import ${new URL('time-lapse.ts', import.meta.url).href}`,
    },
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 20 })
  const paths = ['/open/x', '/open/limited', '/private']
  t.after(async () => {
    agent.destroy()
    gateway.kill()
    upstream.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const series = new Map<string, string[]>([[`up{${LABELS}}`, Array(SCRAPES).fill('1')]])
  const named = new Set(readFileSync(RULES, 'utf8').match(/\b(?:gateway|process)_\w+/g))
  for (let scrape = 0; scrape < SCRAPES; scrape++) {
    const { body } = await call(`${gateway.adminUrl}/metrics`)
    for (const [, name = '', labels, value = ''] of body.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)) {
      if (!named.has(name)) continue
      const key = `${name}{${[labels, LABELS].filter(Boolean).join()}}`
      const values = series.get(key) ?? Array<string>(SCRAPES).fill('_')
      // Time begins at 0 in promtool's tests.
      values[scrape] = name.endsWith('_timestamp_seconds') ? String(Number(value) - startMs / 1000) : value
      series.set(key, values)
    }
    for (let i = 0; i < CALLS_PER_SCRAPE; i++) {
      request(`${gateway.url}${paths[i % paths.length]}`, { agent }, (res) => res.resume())
        .on('error', () => {})
        .end()
      await pause(CALL_MS)
      clock.advance((SCRAPE_SECONDS * 1000) / CALLS_PER_SCRAPE)
    }
  }
  assert.ok(series.has(`gateway_audit_seal_lag_seconds{${LABELS}}`))
  const sealed = series.get(`gateway_audit_seal_lag_seconds{${LABELS}}`)?.map(Number) ?? []
  // More than 2 s shows that the seals' clock ran fast, since one real second is a minute here.
  assert.ok(Math.max(...sealed) > 2)

  const { groups } = parse(readFileSync(RULES, 'utf8')) as { groups: { rules: { alert?: string }[] }[] }
  const alerts = groups
    .flatMap(({ rules }) => rules.flatMap(({ alert }) => alert ?? []))
    .filter((alert) => !OF_THE_MACHINE.has(alert))
  const minutes = Array.from({ length: 59 }, (_, minute) => `${minute + 1}m`)
  const file = join(dir, 'hour.yml')
  const tested = {
    interval: `${SCRAPE_SECONDS}s`,
    input_series: [...series].map(([one, values]) => ({ series: one, values: values.join(' ') })),
    alert_rule_test: alerts.flatMap((alertname) =>
      minutes.map((minute) => ({ eval_time: minute, alertname, exp_alerts: [] })),
    ),
  }
  writeFileSync(
    file,
    // With an evaluation only each minute, an alert with `for` misses short gaps, so it fires at least as early.
    stringify({ rule_files: [RULES], evaluation_interval: '1m', tests: [tested] }),
  )
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', file])
  assert.equal(status, 0, `${stdout}${stderr}`.slice(0, 3000))
})
