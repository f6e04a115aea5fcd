import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { renameSync, writeFileSync } from 'node:fs'
import { Agent, type RequestListener, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect } from 'node:tls'
import { calculateJwkThumbprint, exportJWK } from 'jose'
import { randomDPoPKeyPair } from 'openid-client'
import { Webhook } from 'standardwebhooks'
import { type AuditRecord, readAudit } from '../testing/audit-file.ts'
import { startBeats } from './beats.ts'
import { run } from './child-process.ts'
import { type Call, call, type ReceivedResponse } from './client.ts'
import { firstMoment } from './console-events.ts'
import { INSPECTABLE, inspectThreads } from './inspector.ts'
import { ath, proof } from './proofs.ts'
import { type GatewayOptions, startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeServerCertificate, makeTlsSetup, secureOptions } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/** Threads leave no source maps beside their coverage, and without these it would be added to the wrong lines. */
const WITH_WORKERS = { GATEWAY_WORKERS: '2', NODE_V8_COVERAGE: '' }

const SECRET = `whsec_${Buffer.from('a webhook secret of 32 bytes, ok').toString('base64')}`
/** With as many the system gives both workers some: the chance that it does not is one in 2³¹. */
const CONNECTIONS = 32
const ROUTES = [
  { path: '/api/login', methods: ['POST'], auth: ['none'] },
  { path: '/api/logout', methods: ['POST'], auth: ['bearer'] },
  { path: '/api/mine', auth: ['bearer'] },
  { path: '/api/hooks', methods: ['POST'], auth: ['hmac'] },
  { path: '/api/open', auth: ['none'] },
  { path: '/api/slow', auth: ['none'] },
]
const LIMITS = [
  { path: '/api/login', limit: 5, window: '10m', purpose: 'Guessing' },
  { path: '/api/open', limit: 1000, window: '1h', purpose: 'Any' },
]

/** Connections that stay open, each of them with one of the workers. */
function connections(count = CONNECTIONS): Agent[] {
  return Array.from({ length: count }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
}

function tally(responses: readonly ReceivedResponse[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/** How many exchanges have not exactly one response for each request. */
function unpaired(records: readonly AuditRecord[]): number {
  const open = new Map<unknown, number>()
  for (const { type, requestId, gatewayId } of records) {
    const id = gatewayId ?? requestId
    const change = type === 'API_REQUEST' ? 1 : type === 'API_RESPONSE' ? -1 : 0
    open.set(id, (open.get(id) ?? 0) + change)
  }
  return [...open.values()].filter((count) => count !== 0).length
}

describe('a gateway with two workers', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const agents = connections()
  const held: ServerResponse[] = []
  const answering: RequestListener = (req, res) => {
    if (req.url === '/api/slow') held.push(res)
    else {
      if (req.url === '/api/logout') res.setHeader('X-Revoke-Session', String(req.headers['x-auth-session']))
      res.end('{}')
    }
  }

  before(async () => {
    upstream = await startUpstream(answering)
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        workers: 2,
        routes: ROUTES,
        // More than all the copies of a proof together.
        authThrottle: { failures: 40, window: '1m' },
        trustedProxies: ['127.0.0.1'],
      },
      limits: LIMITS,
      clients: [{ id: 'acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'TEST_SECRET' }] } }],
      env: { TEST_SECRET: SECRET },
    })
    // The keys have been fetched, by all.
    await onAll('/api/mine', { headers: { authorization: `Bearer ${await upstream.issuer.token()}` } })
  })
  after(async () => {
    for (const agent of agents) agent.destroy()
    await gateway.end('SIGKILL')
    upstream.close()
  })

  const onAll = (path: string, options: Call = {}) =>
    Promise.all(agents.map((agent) => call(gateway.url + path, { ...options, agent })))

  it('says how many serve', () => {
    assert.equal(gateway.process.lines.find(({ msg }) => msg === 'listening')?.workers, 2)
  })

  it('lets exactly 5 of 50 simultaneous logins through', async () => {
    const logins = Array.from({ length: 50 }, () =>
      call(`${gateway.url}/api/login`, { method: 'POST', body: {}, agent: new Agent() }),
    )
    assert.deepEqual(tally(await Promise.all(logins)), { 200: 5, 429: 45 })
  })

  it('tells an open console what all of them do together, and who is nearest to a limit', async () => {
    // The main thread's copy of the limits follows a moment later.
    const { state } = await until(async () => {
      const moment = await firstMoment(gateway.adminUrl)
      return moment.state.limits.rows[0]?.nearest[0]?.hits === 5 ? moment : undefined
    })
    assert.deepEqual([state.workers.serving, state.workers.configured], [2, 2])
    assert.equal(state.refusals.find(({ name }) => name === 'limit_exceeded')?.total, 45)
    const [row] = state.limits.rows
    assert.deepEqual([row?.path, row?.nearest.map(({ hits }) => hits)], ['/api/login', [5]])
    assert.equal(state.audit.pending, 0)
  })

  it('adds the metrics of all up on one page', async () => {
    const sample = 'gateway_http_requests_total{route="/api/open",method="GET",status="200"}'
    const records = 'gateway_audit_records_total{type="API_RESPONSE"}'
    const [requestsBefore, recordsBefore] = [await gateway.metric(sample), await gateway.metric(records)]
    for (let round = 0; round < 3; round++) await onAll('/api/open')
    assert.equal(await gateway.metric(sample), requestsBefore + 3 * CONNECTIONS)
    assert.equal(await gateway.metric(records), recordsBefore + 3 * CONNECTIONS)
    const count = 'gateway_http_request_duration_seconds_count{route="/api/open",method="GET"}'
    assert.equal(await gateway.metric(count), requestsBefore + 3 * CONNECTIONS)
    assert.equal(await gateway.metric('gateway_http_requests_in_flight'), 0)
    assert.equal(await gateway.metric(`gateway_upstream_healthy{upstream="${upstream.url}"}`), 1)
    assert.equal(await gateway.metric('gateway_config_reloads_total{file="limits.json",result="success"}'), 1)
    const page = (await call(`${gateway.adminUrl}/metrics`)).body
    const names = page.split('\n').flatMap((line) => /^# TYPE (\S+)/.exec(line)?.[1] ?? [])
    assert.equal(new Set(names).size, names.length)
    assert.equal(page.match(/^gateway_build_info\{.*\} 1$/gm)?.length, 1)
    assert.equal(page.match(/^process_resident_memory_bytes /gm)?.length, 1)
  })

  it('refuses a session on every connection as soon as one has had the response to its logout', async () => {
    for (let round = 0; round < 5; round++) {
      const token = await upstream.issuer.token({ sid: `session-${round}` })
      const headers = { authorization: `Bearer ${token}` }
      assert.deepEqual(tally(await onAll('/api/mine', { headers })), { 200: CONNECTIONS })
      const agent = agents[round] as Agent
      assert.equal((await call(`${gateway.url}/api/logout`, { method: 'POST', headers, agent })).status, 200)
      assert.deepEqual(tally(await onAll('/api/mine', { headers })), { 401: CONNECTIONS })
    }
  })

  it('lets one of as many copies of a webhook pass as there are connections', async () => {
    const at = new Date()
    for (const id of ['msg_1', 'msg_2']) {
      const copies = await onAll('/api/hooks', {
        method: 'POST',
        headers: {
          'x-api-key': 'key_acme',
          'webhook-id': id,
          'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
          'webhook-signature': new Webhook(SECRET).sign(id, at, '{}'),
        },
        body: '{}',
      })
      assert.deepEqual(tally(copies), { 200: 1, 409: CONNECTIONS - 1 })
    }
  })

  it('lets one of as many copies of a proof pass as there are connections', async () => {
    const keys = await randomDPoPKeyPair('ES256')
    const jkt = await calculateJwkThumbprint(await exportJWK(keys.publicKey))
    const token = await upstream.issuer.token({ sid: 'bound', cnf: { jkt } })
    const dpop = await proof(keys, { htm: 'GET', htu: 'http://localhost:8080/api/mine', ath: ath(token) })
    const copies = await onAll('/api/mine', { headers: { authorization: `DPoP ${token}`, dpop } })
    assert.deepEqual(tally(copies), { 200: 1, 401: CONNECTIONS - 1 })
  })

  it('has an edit of the limits in force everywhere within a second, and in the trail once', async () => {
    const sample = 'gateway_http_requests_total{route="/api/open",method="GET",status="200"}'
    const beats = startBeats()
    writeFileSync(gateway.limitsFile, JSON.stringify({ limits: [{ ...LIMITS[1], limit: 4000 }, LIMITS[0]] }))
    const responses = await until(async () => {
      const all = await onAll('/api/open')
      return all.every(({ headers }) => headers['ratelimit-policy'] === '"open";q=4000;w=3600')
        ? all
        : undefined
    })
    assert.ok(beats.elapsedMs() < 1000)
    const left = responses.map(({ headers }) => Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1]))
    // Those before the edit count on.
    assert.equal(Math.min(...left), 4000 - (await gateway.metric(sample)))
    assert.equal(gateway.audit().filter(({ type }) => type === 'CONFIG_CHANGE').length, 1)
    assert.equal(await gateway.metric('gateway_config_reloads_total{file="limits.json",result="success"}'), 2)
  })

  it('has an edit of the clients in force everywhere within a second', async () => {
    const rows = [{ id: 'globex', hmac: { keyId: 'key_globex', secrets: [{ env: 'TEST_SECRET' }] } }]
    const beats = startBeats()
    writeFileSync(gateway.clientsFile, JSON.stringify({ clients: rows }))
    let round = 0
    await until(async () => {
      const at = new Date()
      // Too many of one address that come too early would be kept away.
      const from = `198.51.100.${++round % 256}`
      const responses = agents.map((agent) => {
        const id = randomUUID()
        return call(`${gateway.url}/api/hooks`, {
          method: 'POST',
          agent,
          headers: {
            'x-forwarded-for': from,
            'x-api-key': 'key_globex',
            'webhook-id': id,
            'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
            'webhook-signature': new Webhook(SECRET).sign(id, at, '{}'),
          },
          body: '{}',
        })
      })
      return tally(await Promise.all(responses))[200] === CONNECTIONS ? true : undefined
    })
    assert.ok(beats.elapsedMs() < 1000)
  })

  it('goes on in a new audit file everywhere after a rotation', async () => {
    renameSync(gateway.auditFile, `${gateway.auditFile}.1`)
    gateway.process.child.kill('SIGHUP')
    await until(() => {
      try {
        return readAudit(gateway.auditFile).find(({ type }) => type === 'AUDIT_START')
      } catch {
        return undefined
      }
    })
    const ids = (await onAll('/api/open')).map(({ headers }) => String(headers['x-request-id']))
    for (const id of ids) await gateway.pair(id)
    const before = readAudit(`${gateway.auditFile}.1`)
    assert.equal(unpaired(before), 0)
    assert.equal(before.at(-1)?.reason, 'rotated')
  })

  it('keeps a caller away on every connection who has guessed too often over all of them', async () => {
    const headers = { authorization: 'Bearer not.a.token', 'x-forwarded-for': '192.0.2.7' }
    const guess = () => onAll('/api/mine', { headers })
    assert.deepEqual(tally(await guess()), { 401: CONNECTIONS })
    // The last that is looked at may be looked at while the other worker looks at one, too.
    const { 401: looked = 0, 429: kept = 0 } = tally(await guess())
    assert.ok([8, 9].includes(looked) && looked + kept === CONNECTIONS, `${looked} ${kept}`)
    assert.deepEqual(tally(await guess()), { 429: CONNECTIONS })
  })

  it('finishes what was admitted when it is told to stop, and ends in good order', async () => {
    const slow = agents.map((agent) => call(`${gateway.url}/api/slow`, { agent }))
    await until(() => (held.length === CONNECTIONS ? true : undefined))
    const ended = gateway.end('SIGTERM')
    await gateway.process.line(({ msg, worker }) => msg === 'draining' && worker === 'worker-1')
    await gateway.process.line(({ msg, worker }) => msg === 'draining' && worker === 'worker-2')
    assert.equal((await call(`${gateway.adminUrl}/readyz`)).body, 'draining\n')
    for (const res of held.splice(0)) res.end('done')
    const responses = await Promise.all(slow)
    assert.deepEqual(tally(responses), { 200: CONNECTIONS })
    assert.ok(responses.every(({ body, headers }) => body === 'done' && headers.connection === 'close'))
    assert.equal(await ended, 0)
    const records = gateway.audit()
    assert.equal(unpaired(records), 0)
    assert.equal(records.at(-1)?.type, 'AUDIT_STOP')
    assert.equal(records.at(-1)?.open, 0)
  })
})

describe('counts of a gateway with two workers', () => {
  let upstream: TestUpstream
  let isHolding = false
  const held: ServerResponse[] = []
  before(async () => {
    upstream = await startUpstream((_req, res) => {
      if (isHolding) held.push(res)
      else setTimeout(() => res.end('{}'), 15)
    })
  })
  after(() => upstream.close())

  const optionsOf = (): GatewayOptions => ({
    config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
    limits: [
      { path: '/durable', limit: 300, window: '1h', purpose: 'Any' },
      { path: '/brief', limit: 50, window: '10m', purpose: 'Any' },
    ],
    env: WITH_WORKERS,
  })
  const left = async (gateway: TestGateway, path: string) => {
    const { headers } = await call(gateway.url + path, { agent: new Agent() })
    return Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1])
  }

  it('survive a restart, and those of an hour and more a crash, also with another number of workers', async () => {
    const options = optionsOf()
    let gateway = await startGateway(options)
    const { dir } = gateway
    const hits = (path: string) =>
      Promise.all(Array.from({ length: 20 }, () => call(gateway.url + path, { agent: new Agent() })))
    await hits('/durable')
    await hits('/brief')
    await gateway.end('SIGKILL')
    gateway = await startGateway({ ...options, dir })
    assert.equal(await left(gateway, '/durable'), 300 - 20 - 1)
    await hits('/brief')
    await gateway.end('SIGTERM')
    gateway = await startGateway({ ...options, dir, env: { GATEWAY_WORKERS: '1' } })
    assert.equal(await left(gateway, '/durable'), 300 - 20 - 2)
    assert.equal(await left(gateway, '/brief'), 50 - 20 - 1)
    assert.equal(await gateway.end('SIGTERM'), 0)
  })

  it('are not lost with a worker that dies under load, which is replaced and leaves no half pair', async () => {
    const options = optionsOf()
    const gateway = await startGateway({ ...options, env: { ...options.env, ...INSPECTABLE } })
    const threads = await inspectThreads(gateway)
    await until(() => (threads.seen.length === 2 ? true : undefined))
    const counts = { 200: 0, 429: 0, broken: 0 }
    let over = false
    // So many that both workers have some.
    const agents = connections(24)
    const load = agents.map(async (agent) => {
      while (!over) {
        const response = await call(`${gateway.url}/durable`, { agent }).catch(() => undefined)
        const status = (response?.status ?? 'broken') as keyof typeof counts
        counts[status]++
        // One after another, so that few are under way when a worker dies.
        if (status === 429) return
      }
    })
    for (const [deaths, expression] of [
      [1, 'setTimeout(() => process.exit(7))'],
      [2, 'setTimeout(() => { throw new Error("injected") })'],
    ] as const) {
      await until(() => (counts[200] >= deaths * 60 ? true : undefined))
      isHolding = true
      await until(() => (held.length === agents.length ? true : undefined))
      threads.evaluate('worker-1', expression)
      await until(() => (threads.seen.length === 2 + deaths ? true : undefined))
      isHolding = false
      for (const res of held.splice(0)) res.end('{}')
      assert.equal((await call(`${gateway.adminUrl}/readyz`)).status, 200)
    }
    await Promise.all(load)
    over = true
    assert.ok(counts.broken > 0 && counts.broken <= 2 * agents.length, JSON.stringify(counts))
    assert.ok(counts[200] <= 300 && counts[200] + counts.broken >= 300, JSON.stringify(counts))
    const died = gateway.process.lines.filter(({ msg }) => msg === 'a worker has died')
    assert.equal(await gateway.metric('gateway_workers_died_total'), died.length)
    await until(async () => ((await gateway.metric('gateway_workers')) === 2 ? true : undefined))
    assert.deepEqual(
      died.map(({ worker, cause }) => [worker, String(cause).split('\n')[0]]),
      [
        ['worker-1', 'exit code 7'],
        ['worker-1', 'Error: injected'],
      ],
    )
    await until(() => (unpaired(gateway.audit()) === 0 ? true : undefined))
    const recovered = gateway.audit().filter(({ recovered }) => recovered === true)
    assert.equal(
      recovered.length,
      died.reduce((sum, line) => sum + Number(line.recovered), 0),
    )
    assert.ok(recovered.length > 0)
    // What the page has said it goes on saying.
    const sample = 'gateway_http_requests_total{route="/*",method="GET",status="200"}'
    const told = await gateway.metric(sample)
    threads.evaluate('worker-2', 'setTimeout(() => process.exit(7))')
    await until(() => (threads.seen.length === 5 ? true : undefined))
    assert.ok(told > 0)
    assert.equal(await gateway.metric(sample), told)
    threads.close()
    assert.equal(await gateway.end('SIGTERM'), 0)
    const records = gateway.audit()
    assert.equal(records.at(-1)?.open, 0)
  })
})

it('a gateway with workers lets in as many requests at once as one without, and no more', async () => {
  const held: ServerResponse[] = []
  const upstream = await startUpstream((_req, res) => void held.push(res))
  const config = {
    upstream: upstream.url,
    workers: 2,
    maxInFlight: 5,
    // One caller alone could not have them all.
    trustedProxies: ['127.0.0.1'],
    routes: [{ path: '/*', auth: ['none'] }],
  }
  const gateway = await startGateway({ config })
  const refused: number[] = []
  const responses: Promise<ReceivedResponse>[] = []
  const ask = () => {
    const asked = call(gateway.url, { agent: new Agent() })
    responses.push(asked)
    void asked.then(({ status }) => status === 503 && refused.push(status))
  }
  const settled = () => until(() => (held.length + refused.length === responses.length ? true : undefined))
  for (let i = 0; i < CONNECTIONS; i++) ask()
  await settled()
  assert.ok(held.length <= 5, `${held.length} are open`)
  // Those that raced for the last places may have refused one another; one by one they are all given.
  while (responses.length < 2 * CONNECTIONS) {
    ask()
    await settled()
    assert.ok(held.length <= 5, `${held.length} are open`)
  }
  assert.equal(held.length, 5)
  for (const res of held) res.end()
  assert.deepEqual(tally(await Promise.all(responses)), { 200: 5, 503: 2 * CONNECTIONS - 5 })
  await gateway.end('SIGKILL')
  upstream.close()
})

it('a gateway with workers does not begin on a port that is in use, also by another of its kind', async () => {
  const upstream = await startUpstream()
  const config = { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] }
  const first = await startGateway({ config, env: WITH_WORKERS })
  const second = run('gateway/main.ts', {
    GATEWAY_CONFIG: join(first.dir, 'gateway.json'),
    GATEWAY_LIMITS: first.limitsFile,
    GATEWAY_AUDIT_FILE: join(first.dir, 'other', 'audit.ndjson'),
    GATEWAY_DATA_DIR: join(first.dir, 'other'),
    GATEWAY_PORT: String(first.port),
    GATEWAY_ADMIN_PORT: '0',
    ...WITH_WORKERS,
  })
  assert.equal(await second.ended, 1)
  const told = second.lines.find(({ msg }) => msg === 'cannot listen')
  assert.match(String(told?.cause), /EADDRINUSE/)
  await first.end('SIGKILL')
  upstream.close()
})

it('another certificate is in force on every worker within two seconds, and told of once', async () => {
  const tls = await makeTlsSetup()
  const upstream = await startUpstream()
  const config = { upstream: upstream.url, workers: 2, routes: [{ path: '/*', auth: ['none'] }] }
  const gateway = await startGateway({ config, env: tls.env })
  const thumbprints = async () => {
    const shown = Array.from({ length: CONNECTIONS }, async () => {
      const socket = connect({ ...secureOptions(tls.ca), port: gateway.tlsPort as number })
      await once(socket, 'secureConnect')
      const { fingerprint256 } = socket.getPeerCertificate()
      socket.destroy()
      return fingerprint256
    })
    return new Set(await Promise.all(shown))
  }
  const before = await thumbprints()
  assert.equal(before.size, 1)
  const next = await makeServerCertificate(tls.ca)
  tls.write('server.pem', next.certPem)
  tls.write('server-key.pem', next.keyPem)
  const beats = startBeats()
  await until(async () => {
    const shown = await thumbprints()
    return shown.size === 1 && [...shown].join() !== [...before].join() ? true : undefined
  })
  assert.ok(beats.elapsedMs() < 2000)
  assert.equal(gateway.audit().filter(({ type }) => type === 'CONFIG_CHANGE').length, 1)
  assert.equal(await gateway.metric('gateway_config_reloads_total{file="tls",result="success"}'), 2)
  assert.equal(await gateway.end(), 0)
  upstream.close()
})
