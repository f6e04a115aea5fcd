import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { renameSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { freePort } from '../../backend/testing/free-port.ts'
import { MANDATORY_HEADERS } from '../edge/rules/policy/response-policy.ts'
import packageJson from '../package.json' with { type: 'json' }
import { call, type ReceivedResponse, sendBytes, statusOf } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { headerOf } from './wire.ts'

/** Every documented metric with exactly its labels. */
const CONTRACT: Readonly<Record<string, readonly string[]>> = {
  gateway_http_requests_total: ['method', 'route', 'status'],
  gateway_http_request_duration_seconds: ['method', 'route'],
  gateway_http_requests_in_flight: [],
  gateway_upstream_request_duration_seconds: ['upstream'],
  gateway_upstream_attempts_total: ['outcome', 'upstream'],
  gateway_upstream_group_healthy: ['group'],
  gateway_upstream_healthy: ['upstream'],
  gateway_upstream_unanswered_total: ['upstream'],
  gateway_auth_decisions_total: ['method', 'outcome'],
  gateway_rate_limit_decisions_total: ['decision', 'limit'],
  gateway_refusals_total: ['code'],
  gateway_requests_abandoned_total: [],
  gateway_ready: [],
  gateway_event_loop_active_seconds_total: [],
  gateway_event_loop_lag_seconds: [],
  gateway_issuer_keys_age_seconds: ['issuer'],
  gateway_audit_records_total: ['type'],
  gateway_audit_write_errors_total: [],
  gateway_audit_segment_errors_total: ['task'],
  gateway_audit_segments_total: ['task'],
  gateway_audit_ship_lag_seconds: [],
  gateway_audit_unshipped_segments: [],
  gateway_audit_writable: [],
  gateway_audit_foreign_bytes_total: [],
  gateway_audit_records_pending: [],
  gateway_store_writable: ['store'],
  gateway_store_write_errors_total: ['store'],
  gateway_tunnels_open: [],
  gateway_config_reloads_total: ['file', 'result'],
  gateway_config_last_reload_successful: ['file'],
  gateway_build_info: ['node', 'version'],
}

interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

function samplesOf(exposition: string): Sample[] {
  return exposition
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name = '', labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? assert.fail(line)
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((match) => [match[1], match[2]])
      return { name, labels: Object.fromEntries(pairs), value: Number(value) }
    })
}

describe('the admin listener', () => {
  let upstreamPort: number
  let upstream: TestUpstream
  let gateway: TestGateway

  before(async () => {
    // It goes away and comes back, so nobody else may get its port meanwhile.
    upstreamPort = await freePort()
    upstream = await startUpstream((req, res) => {
      if (req.url === '/open/never') return
      res.end('whole')
    }, upstreamPort)
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        timeouts: { headersMs: 3000 },
        routes: [
          { path: '/open/*', auth: ['none'] },
          { path: '/private', methods: ['GET'], auth: ['bearer'] },
        ],
      },
      limits: [{ path: '/open/limited', limit: 1, window: '1h', purpose: 'tests' }],
    })
  })
  after(async () => {
    await gateway.end('SIGKILL')
    upstream.close()
  })

  const expose = async () => (await call(`${gateway.adminUrl}/metrics`)).body
  const samples = async () => samplesOf(await expose())

  it('exposes every documented metric with its labels and nothing unbounded', async () => {
    const authorization = `Bearer ${await upstream.issuer.token()}`
    await call(`${gateway.url}/private`, { headers: { authorization } })
    await call(`${gateway.url}/private`, { headers: { authorization: 'Bearer x.y.z' } })
    await call(`${gateway.url}/private`)
    await call(`${gateway.url}/open/limited`)
    await call(`${gateway.url}/open/limited`)
    await call(`${gateway.url}/open/never`)
    const all = await samples()
    const families = new Map<string, Set<string>>()
    for (const { name, labels } of all) {
      const family = name.replace(/_(?:bucket|sum|count)$/, '')
      const names = Object.keys(labels).filter((label) => label !== 'le')
      families.set(family, new Set([...(families.get(family) ?? []), names.sort().join()]))
    }
    for (const [name, labels] of Object.entries(CONTRACT)) {
      assert.deepEqual([...(families.get(name) ?? [])], [labels.join()], name)
    }
    const ours = [...families.keys()].filter((name) => name.startsWith('gateway_'))
    assert.deepEqual(ours.sort(), Object.keys(CONTRACT).sort())

    const value = (name: string, labels: Record<string, string> = {}) =>
      all.find((sample) => sample.name === name && isSame(sample.labels, labels))?.value
    const expected: [name: string, labels: Record<string, string>, value: number][] = [
      ['gateway_http_requests_total', { route: '/private', method: 'GET', status: '200' }, 1],
      ['gateway_http_requests_total', { route: '/private', method: 'GET', status: '401' }, 2],
      ['gateway_http_requests_total', { route: '/open/*', method: 'GET', status: '429' }, 1],
      ['gateway_http_requests_total', { route: '/open/*', method: 'GET', status: '504' }, 1],
      ['gateway_http_request_duration_seconds_count', { route: '/open/*', method: 'GET' }, 3],
      ['gateway_http_requests_in_flight', {}, 0],
      ['gateway_upstream_request_duration_seconds_count', { upstream: upstream.url }, 2],
      ['gateway_upstream_attempts_total', { upstream: upstream.url, outcome: 'answered' }, 2],
      ['gateway_upstream_attempts_total', { upstream: upstream.url, outcome: '5xx' }, 0],
      ['gateway_upstream_attempts_total', { upstream: upstream.url, outcome: 'failed' }, 1],
      ['gateway_upstream_healthy', { upstream: upstream.url }, 1],
      ['gateway_auth_decisions_total', { method: 'bearer', outcome: 'accepted' }, 1],
      ['gateway_auth_decisions_total', { method: 'bearer', outcome: 'malformed' }, 1],
      ['gateway_auth_decisions_total', { method: 'bearer', outcome: 'missing' }, 1],
      ['gateway_rate_limit_decisions_total', { limit: 'limited', decision: 'allowed' }, 1],
      ['gateway_rate_limit_decisions_total', { limit: 'limited', decision: 'refused' }, 1],
      ['gateway_refusals_total', { code: 'limit_exceeded' }, 1],
      ['gateway_refusals_total', { code: 'upstream_timeout' }, 1],
      ['gateway_refusals_total', { code: 'missing_token' }, 1],
      ['gateway_audit_records_total', { type: 'API_REQUEST' }, 6],
      ['gateway_audit_records_total', { type: 'API_RESPONSE' }, 6],
      ['gateway_audit_records_total', { type: 'AUDIT_START' }, 1],
      ['gateway_audit_write_errors_total', {}, 0],
      ['gateway_config_reloads_total', { file: 'limits.json', result: 'success' }, 1],
      ['gateway_config_last_reload_successful', { file: 'limits.json' }, 1],
    ]
    for (const [name, labels, number] of expected) {
      assert.equal(value(name, labels), number, `${name} ${JSON.stringify(labels)}`)
    }
    const info = all.find(({ name }) => name === 'gateway_build_info')
    assert.deepEqual(info?.labels, { version: packageJson.version, node: process.version })
    const slow = all.find(
      ({ name, labels }) =>
        name === 'gateway_http_request_duration_seconds_sum' && labels.route === '/open/*',
    )
    assert.ok(Number(slow?.value) >= 1 && Number(slow?.value) < 60, String(slow?.value))
  })

  const promtool = spawnSync('promtool', ['--version']).error === undefined
  it('passes promtool check metrics', {
    skip: promtool ? false : 'promtool is not installed (apt-get install prometheus)',
  }, async () => {
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: await expose() })
    assert.equal(status, 0, `${stdout}${stderr}`)
  })

  it('gains no series from a thousand made-up paths and methods, and never shows a raw path', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 8 })
    const methods = ['GET', 'PROPFIND', 'QUERY', 'POST', 'M-SEARCH']
    const ask = (i: number): Promise<ReceivedResponse> =>
      call(`${gateway.url}${i % 2 === 0 ? '/open' : ''}/made-up-${i}-${crypto.randomUUID()}`, {
        method: methods[i % methods.length] ?? 'GET',
        agent,
      })
    const wave = (from: number, count: number) =>
      Promise.all(Array.from({ length: count }, (_, i) => ask(from + i)))
    // Every method on both kinds of path.
    await wave(0, 10)
    const ours = async () => (await samples()).filter(({ name }) => name.startsWith('gateway_'))
    const before = (await ours()).length
    for (let from = 10; from < 1000; from += 90) await wave(from, 90)
    const later = await ours()
    assert.equal(later.length, before)
    const routes = new Set(later.map(({ labels }) => labels.route).filter((route) => route !== undefined))
    assert.deepEqual([...routes].sort(), ['/open/*', '/private', 'none'])
    assert.ok(!later.some(({ labels }) => labels.method === 'PROPFIND' || labels.method === 'QUERY'))
    assert.ok(!JSON.stringify(later).includes('made-up'))
    agent.destroy()
  })

  it('has no text of a client in a label, wherever in its request the client wrote it', async () => {
    const mark = 'written-by-a-client'
    const good = await upstream.issuer.token({
      sub: mark,
      client_id: mark,
      sid: mark,
      jti: mark,
      scope: mark,
    })
    const part = Buffer.from(JSON.stringify({ alg: 'ES256', kid: mark, iss: mark, sub: mark })).toString(
      'base64url',
    )
    const headers = [
      { authorization: `Bearer ${good}` },
      { authorization: `Bearer ${part}.${part}.${part}` },
      { authorization: `Basic ${mark}` },
      { authorization: mark },
      { 'x-api-key': mark, 'webhook-id': mark, 'webhook-timestamp': mark, 'webhook-signature': mark },
      { dpop: mark, 'x-request-id': mark, 'user-agent': mark, origin: `https://${mark}`, traceparent: mark },
      { 'x-forwarded-for': mark, forwarded: `for=${mark}`, 'content-type': mark, cookie: mark, [mark]: mark },
    ]
    for (const path of ['/private', `/open/${mark}?${mark}=${mark}`, `/${mark}`])
      for (const each of headers) await call(gateway.url + path, { headers: each as Record<string, string> })
    const port = Number(new URL(gateway.url).port)
    await sendBytes(port, `${mark.toUpperCase()} / HTTP/1.1\r\nHost: ${mark}\r\nConnection: close\r\n\r\n`)
    await sendBytes(port, `GET ${mark} ${mark}\r\n\r\n`)
    const page = await expose()
    assert.match(page, /^gateway_auth_decisions_total\{method="bearer",outcome="accepted"\} [2-9]/m)
    assert.doesNotMatch(page, new RegExp(mark, 'i'))
    assert.ok(!page.includes(part))
  })

  it('responds to probes, and to nothing but GET and HEAD of its own paths', async () => {
    const cases: [path: string, method: string, status: number, body: RegExp][] = [
      ['/healthz', 'GET', 200, /^alive\n$/],
      ['/readyz', 'GET', 200, /^ready\n$/],
      ['/readyz?verbose', 'GET', 200, /^ready\n$/],
      ['/healthz', 'HEAD', 200, /^$/],
      ['/metrics', 'POST', 405, /GET/],
      ['/', 'GET', 200, /^<!doctype html>/],
      ['/console', 'GET', 404, /metrics/],
      ['/open/x', 'GET', 404, /metrics/],
    ]
    for (const [path, method, status, body] of cases) {
      const response = await call(gateway.adminUrl + path, { method })
      assert.equal(response.status, status, path)
      assert.match(response.body, body)
      assert.equal(response.headers.allow, status === 405 ? 'GET, HEAD' : undefined)
    }
    const metrics = await call(`${gateway.adminUrl}/metrics`)
    assert.match(String(metrics.headers['content-type']), /^text\/plain; version=0\.0\.4/)
    assert.equal((await call(`${gateway.url}/metrics`)).status, 404)
  })

  it('sends the mandatory headers also where Node alone would respond', async () => {
    const port = Number(new URL(gateway.adminUrl).port)
    const requests = [
      'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n',
      'GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\nConnection: close\r\n\r\n',
    ]
    for (const bytes of requests) {
      const response = await sendBytes(port, bytes)
      assert.equal(statusOf(response), 200, response)
      for (const [name, value] of MANDATORY_HEADERS)
        assert.equal(headerOf(response, name.toLowerCase()), value, name)
      assert.ok(headerOf(response, 'x-request-id'))
    }
    assert.equal(await sendBytes(port, 'garbage\r\n\r\n'), '')
  })

  it('keeps /readyz at 200 after a bad edit, and counts the reloads', async () => {
    writeFileSync(gateway.limitsFile, '{')
    const reloads = 'gateway_config_reloads_total{file="limits.json",result="failure"}'
    await until(async () => ((await gateway.metric(reloads)) === 1 ? true : undefined))
    assert.equal((await call(`${gateway.adminUrl}/readyz`)).status, 200)
    writeFileSync(`${gateway.limitsFile}.new`, '{"limits":[]}')
    renameSync(`${gateway.limitsFile}.new`, gateway.limitsFile)
    const good = 'gateway_config_reloads_total{file="limits.json",result="success"}'
    await until(async () => ((await gateway.metric(good)) === 2 ? true : undefined))
    assert.equal(await gateway.metric('gateway_audit_records_total{type="CONFIG_CHANGE"}'), 1)
  })

  it('says when the upstream cannot be reached, and when it can again', async () => {
    const sample = `gateway_upstream_healthy{upstream="${upstream.url}"}`
    upstream.close()
    await until(async () => {
      const { status } = await call(`${gateway.url}/open/x`, { method: 'POST' })
      return status === 502 && (await gateway.metric(sample)) === 0 ? true : undefined
    })
    upstream.server.listen(upstreamPort, '127.0.0.1')
    await until(async () => {
      await call(`${gateway.url}/open/x`)
      return (await gateway.metric(sample)) === 1 ? true : undefined
    })
  })
})

function isSame(one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(one)
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name])
}
