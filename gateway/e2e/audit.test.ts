import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { appendFileSync, readFileSync, renameSync, statSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { type AuditRecord, readAudit } from '../testing/audit-file.ts'
import { call } from './client.ts'
import { type GatewayOptions, startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Requests and responses by request id. */
function byRequest(records: readonly AuditRecord[]): Map<string, AuditRecord[]> {
  const found = new Map<string, AuditRecord[]>()
  for (const record of records) {
    if (record.requestId === undefined) continue
    found.set(record.requestId, [...(found.get(record.requestId) ?? []), record])
  }
  return found
}

/** Asserts one request and one response, in this order, that agree in all they share; gives the response. */
function assertPair(requestId: string, records: readonly AuditRecord[]): AuditRecord {
  assert.deepEqual(
    records.map(({ type }) => type),
    ['API_REQUEST', 'API_RESPONSE'],
    `${requestId}: ${JSON.stringify(records)}`,
  )
  const [request, response] = records as [AuditRecord, AuditRecord]
  const { statusCode, duration, recovered, ...shared } = response
  assert.deepEqual({ ...shared, type: 'API_REQUEST' }, request)
  assert.ok(typeof statusCode === 'number' && typeof duration === 'number' && duration >= 0)
  assert.ok(recovered === undefined || recovered === true)
  return response
}

describe('the audit trail', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let options: GatewayOptions
  /** Responses that the upstream has not yet sent, by request id. */
  const held = new Map<string, ServerResponse>()

  before(async () => {
    upstream = await startUpstream((req, res) => {
      const kind = req.url?.split(/[/?]/)[1]
      if (kind === 'held') held.set(String(req.headers['x-request-id']), res)
      else if (kind === 'broken')
        res.writeHead(200, { 'content-length': 9 }).write('part', () => res.destroy())
      else if (kind === 'slow') setTimeout(() => res.end('late'), 20)
      else res.writeHead(kind === 'missing' ? 404 : 200).end('whole')
    })
    options = {
      config: {
        upstream: upstream.url,
        routes: [
          { path: '/*', auth: ['none'] },
          { path: '/mine', auth: ['bearer'] },
        ],
      },
      limits: [{ path: '/once', limit: 1, window: '1h', purpose: 'tests' }],
      env: { GATEWAY_LOG_LEVEL: 'trace' },
    }
    gateway = await startGateway(options)
  })
  after(async () => {
    await gateway.end('SIGKILL')
    upstream.close()
  })

  const holding = (count: number) => until(() => (held.size === count ? true : undefined))
  const release = () => {
    for (const res of held.values()) res.end('whole')
    held.clear()
  }
  const ask = (path: string, requestId: string, headers: Record<string, string> = {}) =>
    call(gateway.url + path, { headers: { 'x-request-id': requestId, ...headers } })

  const SHARED = ['type', 'requestId', 'timestamp', 'method', 'path', 'ip', 'userAgent']
  /** The last field of a record, if the client has chosen the request id. */
  const OWN = ['gatewayId']

  it('names the fields in their order, an authenticated user and app, and no query', async () => {
    const authorization = `Bearer ${await upstream.issuer.token({ sub: 'user-7' })}`
    await ask('/open/%7Ea/../b?c=d', 'anonymous', { 'user-agent': 'tests/1.0 "quoted"' })
    await ask('/mine', 'user', { authorization })
    await ask('/mine', 'stranger', { authorization: 'Bearer x.y.z' })
    const [request, response] = await gateway.pair('anonymous')
    assert.deepEqual(Object.keys(request), [...SHARED, ...OWN])
    assert.deepEqual(Object.keys(response), [...SHARED, 'statusCode', 'duration', ...OWN])
    assert.deepEqual(
      [request.method, request.path, request.ip, request.userAgent],
      ['GET', '/open/b', '127.0.0.1', 'tests/1.0 "quoted"'],
    )
    assert.match(String(request.timestamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.ok(Math.abs(Date.now() - Date.parse(String(request.timestamp))) < 60_000)
    const [ofUser] = await gateway.pair('user')
    assert.deepEqual(Object.keys(ofUser), [...SHARED.toSpliced(5, 0, 'userId'), 'sessionId', ...OWN])
    assert.equal(ofUser.userId, 'user-7')
    const throughApp = await upstream.issuer.token({ sub: 'user-7', client_id: 'tpp-1' })
    await ask('/mine', 'app', { authorization: `Bearer ${throughApp}` })
    for (const record of await gateway.pair('app'))
      assert.deepEqual(Object.entries(record).slice(5, 7), [
        ['userId', 'user-7'],
        ['clientId', 'tpp-1'],
      ])
    const machine = await upstream.issuer.token({ sub: 'machine-1', client_id: 'machine-1' })
    await ask('/mine', 'machine', { authorization: `Bearer ${machine}` })
    const [ofMachine] = await gateway.pair('machine')
    assert.deepEqual(Object.keys(ofMachine), [...SHARED.toSpliced(5, 0, 'clientId'), 'sessionId', ...OWN])
    assert.equal(ofMachine.clientId, 'machine-1')
    const [ofStranger, refused] = await gateway.pair('stranger')
    assert.deepEqual(Object.keys(ofStranger), [...SHARED, ...OWN])
    assert.equal(refused.statusCode, 401)
  })

  it('and the operational log never hold a token, a query value, a header or a body', async () => {
    const token = await upstream.issuer.token({ sub: 'user-8' })
    const [, claims = '', signature = ''] = token.split('.')
    const secrets = [
      'query-secret',
      'body-secret',
      'header-secret',
      'cookie-secret',
      'basic-secret',
      signature,
      claims,
    ]
    const headers = { 'x-custom': 'header-secret', cookie: 'session=cookie-secret' }
    const attempts = [
      { path: '/mine?q=query-secret', authorization: `Bearer ${token}` },
      { path: '/mine?q=query-secret', authorization: `Bearer ${token.slice(0, -4)}AAAA` },
      { path: '/mine?q=query-secret', authorization: `Bearer ${token} query-secret` },
      { path: '/mine?q=query-secret', authorization: 'Basic basic-secret' },
      { path: `/mine?access_token=${token}`, authorization: '' },
      { path: '/once?q=query-secret', authorization: '' },
      { path: '/once?q=query-secret', authorization: '' },
      { path: '/broken?q=query-secret', authorization: '' },
      { path: '/bad;query-secret=1?q=query-secret', authorization: '' },
    ]
    for (const { path, authorization } of attempts) {
      await fetch(gateway.url + path, {
        method: 'POST',
        headers: authorization === '' ? headers : { ...headers, authorization },
        body: JSON.stringify({ email: 'a@example.com', password: 'body-secret' }),
      }).then(
        (answer) => answer.text().catch(() => {}),
        () => {},
      )
    }
    const count = gateway.process.lines.length
    await until(async () =>
      (await gateway.metric('gateway_http_requests_in_flight')) === 0 ? true : undefined,
    )
    const texts = {
      trail: readFileSync(gateway.auditFile, 'utf8'),
      log: JSON.stringify(gateway.process.lines) + gateway.process.plain(),
      metrics: (await call(`${gateway.adminUrl}/metrics`)).body,
    }
    assert.ok(count > 3, 'refusals are logged at this level')
    for (const [place, text] of Object.entries(texts)) {
      for (const secret of secrets) assert.ok(!text.includes(secret), `${place} holds ${secret}`)
    }
  })

  it('has a pair of records for every request, however it ended, and nothing else', async () => {
    const endings = ['ok', 'missing', 'slow', 'broken', 'aborted'] as const
    const expected = new Map<string, number>()
    const worker = async (name: number) => {
      for (let i = 0; i < 40; i++) {
        const ending = endings[(name * 7 + i * 3 + (i >> 2)) % endings.length] ?? 'ok'
        const requestId = `load-${name}-${i}-${ending}`
        const path = ending === 'aborted' ? '/held' : `/${ending}`
        const headers = { 'x-request-id': requestId }
        if (ending === 'aborted') {
          expected.set(requestId, 499)
          const leaving = new AbortController()
          const left = assert.rejects(fetch(gateway.url + path, { headers, signal: leaving.signal }))
          await until(() => held.get(requestId))
          leaving.abort()
          await left
        } else if (ending === 'broken') {
          expected.set(requestId, 502)
          await assert.rejects(fetch(gateway.url + path, { headers }).then((answer) => answer.text()))
        } else {
          const { status } = await call(gateway.url + path, { headers })
          expected.set(requestId, status)
        }
      }
    }
    await Promise.all(Array.from({ length: 6 }, (_, name) => worker(name)))
    await until(async () =>
      (await gateway.metric('gateway_http_requests_in_flight')) === 0 ? true : undefined,
    )
    held.clear()
    // A request is no longer counted as in flight a moment before its last record is written.
    const pairs = await until(() => {
      const found = byRequest(gateway.audit())
      return [...expected.keys()].every((id) => (found.get(id)?.length ?? 0) > 1) ? found : undefined
    })
    for (const [requestId, status] of expected) {
      const response = assertPair(requestId, pairs.get(requestId) ?? [])
      assert.equal(response.statusCode, status, requestId)
      assert.equal(response.recovered, undefined)
    }
    for (const [requestId, records] of pairs) assertPair(requestId, records)
  })

  it('has, after kill -9 under load, every response that clients saw, and recovers the other requests', async () => {
    const open = Array.from({ length: 5 }, (_, i) => `open-${i}`)
    const opened = open.map((requestId) => ask('/held', requestId).catch(() => {}))
    await holding(open.length)
    const seen = new Map<string, number>()
    let sent = 0
    const knock = async () => {
      for (;;) {
        const requestId = `crash-${sent++}`
        const { status } = await ask('/slow', requestId)
        seen.set(requestId, status)
        if (seen.size === 60) gateway.process.child.kill('SIGKILL')
      }
    }
    await Promise.allSettled([...Array.from({ length: 8 }, knock), ...opened])
    assert.ok(seen.size >= 60, `${seen.size} responses`)
    assert.equal(await gateway.process.ended, 'SIGKILL')
    held.clear()
    // The kill itself may have torn a line, because the kernel can stop a write between two pages.
    const left = readFileSync(gateway.auditFile)
    const tornBytes = left.length - (left.lastIndexOf('\n') + 1)
    appendFileSync(gateway.auditFile, '{"type":"API_REQUEST","requestId":"torn","ti')

    gateway = await startGateway({ ...options, dir: gateway.dir })
    const pairs = byRequest(gateway.audit())
    for (const [requestId, status] of seen) {
      assert.equal(assertPair(requestId, pairs.get(requestId) ?? []).statusCode, status)
    }
    const recovered = [...pairs].filter(([id, records]) => assertPair(id, records).recovered === true)
    for (const [, records] of recovered)
      assert.deepEqual([records[1]?.statusCode, records[1]?.duration], [0, 0])
    const ids = recovered.map(([id]) => id)
    assert.ok(
      open.every((requestId) => ids.includes(requestId)),
      ids.join(' '),
    )
    assert.ok(
      ids.every((id) => open.includes(id) || (id.startsWith('crash-') && !seen.has(id))),
      ids.join(' '),
    )
    const start = gateway.audit().findLast(({ type }) => type === 'AUDIT_START')
    assert.deepEqual([start?.recovered, start?.cutBytes, start?.open], [ids.length, tornBytes + 44, 0])
    assert.ok(!pairs.has('torn'))
  })

  it('goes on in a new file after a rename and SIGHUP, also with an open request', async () => {
    const across = ask('/held', 'across')
    await holding(1)
    const rotated = `${gateway.auditFile}.1`
    renameSync(gateway.auditFile, rotated)
    assert.equal((await ask('/ok', 'between')).status, 200)
    gateway.process.child.kill('SIGHUP')
    const [start] = await until(() => {
      const { size } = statSync(gateway.auditFile, { throwIfNoEntry: false }) ?? { size: 0 }
      return size > 0 ? gateway.audit() : undefined
    })
    assert.deepEqual([start?.type, start?.continues], ['AUDIT_START', String(statSync(rotated).ino)])
    release()
    assert.equal((await across).status, 200)
    const old = readAudit(rotated)
    assert.deepEqual([old.at(-1)?.type, old.at(-1)?.reason, old.at(-1)?.open], ['AUDIT_STOP', 'rotated', 1])
    assertPair('between', byRequest(old).get('between') ?? [])
    const both = byRequest([...old, ...gateway.audit()])
    for (const [requestId, records] of both) assertPair(requestId, records)
    assert.equal((await ask('/ok', 'afterwards')).status, 200)
    await gateway.pair('afterwards')
  })

  it('tells apart requests with the same id in the same millisecond; a request without an id gets only one', async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => ask('/open', 'repeated')))
    assert.ok(ids.every(({ headers }) => headers['x-request-id'] === 'repeated'))
    const records = await until(() => {
      const found = gateway.audit().filter(({ requestId }) => requestId === 'repeated')
      return found.length === 40 ? found : undefined
    })
    const pairs = Map.groupBy(records, ({ gatewayId }) => String(gatewayId))
    assert.equal(pairs.size, 20)
    for (const [id, pair] of pairs) {
      assert.match(id, UUID_V7)
      assertPair(id, pair)
    }
    const own = String((await call(`${gateway.url}/open`)).headers['x-request-id'])
    const [request, response] = await gateway.pair(own)
    assert.deepEqual(Object.keys(request), SHARED)
    assert.deepEqual(Object.keys(response), [...SHARED, 'statusCode', 'duration'])
  })
})

const { error: noPrlimit } = spawnSync('prlimit', ['--version'])
const limitable = noPrlimit === undefined ? {} : { skip: 'needs prlimit (util-linux) to take its disk away' }

describe('a trail that cannot be written', limitable, () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const held: ServerResponse[] = []

  before(async () => {
    upstream = await startUpstream((req, res) => (req.url === '/held' ? held.push(res) : res.end('whole')))
    gateway = await startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
    })
  })
  after(async () => {
    await gateway.end('SIGKILL')
    upstream.close()
  })

  /** The gateway's files cannot grow beyond this: a write takes what still fits, then fails with EFBIG. */
  const bound = (bytes: number | 'unlimited') =>
    spawnSync('prlimit', ['--pid', String(gateway.process.child.pid), `--fsize=${bytes}:`])
  const ready = async () => (await call(`${gateway.adminUrl}/readyz`)).status

  it('makes requests and /readyz get 503; with room again, admitted requests finish', async () => {
    const admitted = call(`${gateway.url}/held`, { headers: { 'x-request-id': 'admitted' } })
    await until(() => (held.length === 1 ? true : undefined))
    assert.equal(await ready(), 200)
    bound(statSync(gateway.auditFile).size + 50)
    for (let i = 0; i < 20; i++) {
      const { status, headers, json } = await call(`${gateway.url}/new`)
      assert.deepEqual([status, json().code, headers['retry-after']], [503, 'audit_unavailable', '5'])
      assert.equal(headers['strict-transport-security'], 'max-age=31536000; includeSubDomains')
      assert.equal(headers['cache-control'], 'no-store')
    }
    assert.equal(await ready(), 503)
    assert.equal((await call(`${gateway.adminUrl}/healthz`)).status, 200)
    assert.ok((await gateway.metric('gateway_audit_write_errors_total')) > 0)
    const complaints = gateway.process.lines.filter(({ msg }) => msg === 'the audit trail cannot be written')
    assert.ok(complaints.length > 0 && complaints.length < 10, String(complaints.length))
    assert.match(String(complaints[0]?.cause), /EFBIG/)
    held.shift()?.end('whole')
    const early = await Promise.race([admitted, new Promise((resolve) => setTimeout(resolve, 300, 'waits'))])
    assert.equal(early, 'waits')

    bound('unlimited')
    assert.equal((await admitted).status, 200)
    // Only the probe is sent meanwhile, so the gateway recovers without a request.
    await until(async () => ((await ready()) === 200 ? true : undefined))
    const again = await gateway.process.line(({ msg }) => msg === 'the audit trail can be written again')
    assert.deepEqual([again.level, again.file], [30, gateway.auditFile])
    assert.equal(
      (await call(`${gateway.url}/new`, { headers: { 'x-request-id': 'good-again' } })).status,
      200,
    )
    await gateway.pair('good-again')
    const records = gateway.audit()
    for (const [requestId, pair] of byRequest(records)) assertPair(requestId, pair)
    assert.deepEqual([...byRequest(records).keys()], ['admitted', 'good-again'])
    const stop = records.findIndex(({ type }) => type === 'AUDIT_STOP')
    assert.equal(records[stop]?.reason, 'write failed: EFBIG')
    const start = records.findLast(({ type }) => type === 'AUDIT_START')
    assert.equal(start?.refused, 20, JSON.stringify(start))
  })

  it('is written to standard output after a restart with GATEWAY_AUDIT_FILE=-', async () => {
    await gateway.end()
    gateway = await startGateway({ config: {}, dir: gateway.dir, env: { GATEWAY_AUDIT_FILE: '-' } })
    await call(gateway.url, { headers: { 'x-request-id': 'printed' } })
    await until(() => {
      const printed = gateway.process.plain()
      return printed.includes('"API_RESPONSE","requestId":"printed"') ? true : undefined
    })
  })
})
