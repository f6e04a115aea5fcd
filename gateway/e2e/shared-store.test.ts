import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, type RequestListener, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { calculateJwkThumbprint, exportJWK } from 'jose'
import { randomDPoPKeyPair } from 'openid-client'
import { Webhook } from 'standardwebhooks'
import { leastRights } from '../store/least-rights.test-support.ts'
import { NO_REDIS, type RedisServer, startRedis } from '../store/redis-server.test-support.ts'
import { type Call, call, type ReceivedResponse } from './client.ts'
import { ath, proof } from './proofs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startGroup } from './store-group.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const SECRET = `whsec_${Buffer.from('a webhook secret of 32 bytes, ok').toString('base64')}`
const ROUTES = [
  { path: '/api/logout', methods: ['POST'], auth: ['bearer'] },
  { path: '/api/mine', auth: ['bearer'] },
  { path: '/api/pay', auth: ['bearer'], acr: ['sca'] },
  { path: '/api/hooks', methods: ['POST'], auth: ['hmac'] },
  { path: '/*', auth: ['none'] },
]
const LIMITS = [
  { path: '/five', limit: 5, window: '1m', purpose: 'Any' },
  { path: '/deny', limit: 5, window: '1m', purpose: 'Any', onStoreFailure: 'deny' },
  { path: '/allow', limit: 5, window: '1m', purpose: 'Any', onStoreFailure: 'allow' },
  { path: '/api/pay', limit: 5, window: '1m', purpose: 'Any' },
  { path: '/many', limit: 2000, window: '1m', purpose: 'Any' },
]

function tally(responses: readonly ReceivedResponse[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/**
 * Checks that the trail has each outage once, as the metrics count them. On a busy machine another outage may begin when
 * the store has just come back, so this waits.
 */
async function checkReports(gateway: TestGateway): Promise<void> {
  const readings = async () => {
    const { body } = await call(`${gateway.adminUrl}/metrics`)
    return (metric: string) => Number(new RegExp(`^${metric} (.*)$`, 'm').exec(body)?.[1])
  }
  const readingOf = await until(async () => {
    const current = await readings()
    const reports = gateway.audit().filter(({ store }) => store === 'shared')
    const outages = current('gateway_store_outages_total')
    const counts = ['STORE_DEGRADED', 'STORE_RESTORED'].map(
      (type) => reports.filter((report) => report.type === type).length,
    )
    const areReported = outages > 0 && counts.every((count) => count === outages)
    return areReported && current('gateway_store_breaker_open') === 0 ? current : undefined
  })
  assert.equal(readingOf('gateway_store_writable\\{store="shared"\\}'), 1)
  assert.ok(readingOf('gateway_store_takes_total\\{outcome="decided"\\}') > 100)
  assert.ok(readingOf('gateway_store_takes_total\\{outcome="undecided"\\}') > 0)
  assert.ok(readingOf('gateway_store_round_trip_duration_seconds_count') > 0)
}

describe('three gateways with one store', { skip: NO_REDIS }, () => {
  let redis: RedisServer
  let dir: string
  let upstream: TestUpstream
  const gateways: TestGateway[] = []
  const answering: RequestListener = (req, res) => {
    if (req.url === '/api/logout') res.setHeader('X-Revoke-Session', String(req.headers['x-auth-session']))
    res.end('{}')
  }
  const start = () =>
    startGateway({
      config: {
        upstream: upstream.url,
        routes: ROUTES,
        // The deadline is long, because other tests keep the machine busy.
        onStoreFailure: { deadlineMs: 1000 },
        authThrottle: { failures: 20, window: '10m' },
        trustedProxies: ['127.0.0.1'],
      },
      limits: LIMITS,
      clients: [{ id: 'acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'TEST_SECRET' }] } }],
      env: {
        TEST_SECRET: SECRET,
        GATEWAY_STORE: `redis://127.0.0.1:${redis.port}`,
        GATEWAY_STORE_USER: 'countersign',
        GATEWAY_STORE_PASSWORD_FILE: join(dir, 'password'),
      },
    })
  const ready = ({ adminUrl }: TestGateway) =>
    until(async () => ((await call(`${adminUrl}/readyz`)).status === 200 ? true : undefined))

  before(async () => {
    redis = await startRedis()
    // All tests run with the rights that docs/operate/operations.md names.
    await redis.command('ACL', 'SETUSER', ...leastRights('a-password'))
    dir = mkdtempSync(join(tmpdir(), 'shared-store-'))
    writeFileSync(join(dir, 'password'), 'a-password\n')
    upstream = await startUpstream(answering)
    gateways.push(...(await Promise.all([start(), start(), start()])))
    await Promise.all(gateways.map(ready))
    const headers = { authorization: `Bearer ${await upstream.issuer.token()}` }
    await onAll('/api/mine', { headers })
  })
  after(async () => {
    await Promise.all(gateways.map((gateway) => gateway.end('SIGKILL')))
    upstream.close()
    await redis.stop()
    rmSync(dir, { recursive: true, force: true })
  })

  const onAll = (path: string, options: Call = {}, each = 1) =>
    Promise.all(
      gateways.flatMap(({ url }) =>
        Array.from({ length: each }, () => call(url + path, { ...options, agent: new Agent() })),
      ),
    )

  it('let exactly as many requests through as one gateway would', async () => {
    assert.deepEqual(tally(await onAll('/five', {}, 10)), { 200: 5, 429: 25 })
    assert.deepEqual(tally(await onAll('/many', {}, 100)), { 200: 300 })
    const [{ headers }] = (await onAll('/many')) as [ReceivedResponse]
    assert.ok(/r=169[789];/.test(String(headers.ratelimit)), String(headers.ratelimit))
  })

  it('count no request that is refused for another reason', async () => {
    const headersOf = async (acr: string) => ({
      authorization: `Bearer ${await upstream.issuer.token({ sid: 'payer', sub: 'payer', acr })}`,
    })
    assert.deepEqual(tally(await onAll('/api/pay', { headers: await headersOf('password') }, 2)), { 401: 6 })
    assert.deepEqual(tally(await onAll('/api/pay', { headers: await headersOf('sca') }, 2)), {
      200: 5,
      429: 1,
    })
  })

  it('refuse a session that ended at one of them', async () => {
    const token = await upstream.issuer.token({ sid: 'session-1' })
    const headers = { authorization: `Bearer ${token}` }
    assert.deepEqual(tally(await onAll('/api/mine', { headers }, 4)), { 200: 12 })
    const [first] = gateways as [TestGateway]
    assert.equal((await call(`${first.url}/api/logout`, { method: 'POST', headers })).status, 200)
    await until(async () => (tally(await onAll('/api/mine', { headers }, 4))[401] === 12 ? true : undefined))
    assert.deepEqual(tally(await onAll('/api/mine', { headers }, 4)), { 401: 12 })
  })

  it('let one of many simultaneous copies of a webhook pass', async () => {
    const at = new Date()
    const copies = await onAll(
      '/api/hooks',
      {
        method: 'POST',
        headers: {
          'x-api-key': 'key_acme',
          'webhook-id': 'msg_1',
          'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
          'webhook-signature': new Webhook(SECRET).sign('msg_1', at, '{}'),
        },
        body: '{}',
      },
      5,
    )
    assert.deepEqual(tally(copies), { 200: 1, 409: 14 })
  })

  it('let one of many simultaneous copies of a DPoP proof pass', async () => {
    const keys = await randomDPoPKeyPair('ES256')
    const jkt = await calculateJwkThumbprint(await exportJWK(keys.publicKey))
    const token = await upstream.issuer.token({ sid: 'bound', cnf: { jkt } })
    const dpop = await proof(keys, { htm: 'GET', htu: 'http://localhost:8080/api/mine', ath: ath(token) })
    const copies = await onAll('/api/mine', { headers: { authorization: `DPoP ${token}`, dpop } }, 5)
    assert.deepEqual(tally(copies), { 200: 1, 401: 14 })
  })

  it('refuse a caller that has guessed too often at all of them together', async () => {
    const from = { 'x-forwarded-for': '192.0.2.7' }
    const headers = { authorization: 'Bearer not.a.token', ...from }
    // Too few guesses at each of them, but enough at all together.
    await onAll('/api/mine', { headers }, 7)
    // Good tokens add no failures. Each is new, because a known token would pass.
    await until(async () => {
      const good = { authorization: `Bearer ${await upstream.issuer.token()}`, ...from }
      return tally(await onAll('/api/mine', { headers: good }))[429] === 3 ? true : undefined
    })
  })

  it('go on as each row says while the store does not respond, and use it again when it does', async () => {
    await onAll('/five')
    redis.signal('SIGSTOP')
    try {
      const startMs = performance.now()
      // Each gateway has counted the hits too, so the limit is used up.
      assert.deepEqual(tally(await onAll('/allow', {}, 10)), { 200: 30 })
      assert.ok(performance.now() - startMs < 5000)
      assert.deepEqual(tally(await onAll('/deny', {}, 10)), { 503: 30 })
      assert.deepEqual(tally(await onAll('/many', {}, 10)), { 200: 30 })
      for (const { adminUrl } of gateways) {
        await until(async () => {
          const { status, body } = await call(`${adminUrl}/readyz`)
          assert.equal(status, 200)
          return body.includes('the shared store is away') ? true : undefined
        })
        const { body } = await call(`${adminUrl}/metrics`)
        assert.match(body, /^gateway_store_writable\{store="shared"\} 0$/m)
        assert.match(body, /^gateway_store_breaker_open 1$/m)
      }
    } finally {
      redis.signal('SIGCONT')
    }
    await until(async () => {
      const bodies = await Promise.all(gateways.map(({ adminUrl }) => call(`${adminUrl}/readyz`)))
      return bodies.every(({ body }) => !body.includes('away')) ? true : undefined
    })
    for (const gateway of gateways) await checkReports(gateway)
  })

  it('refuse all tokens while the store is away, if an edit of gateway.json says so', async () => {
    // Not the session that ended above, nor the address with the replayed proofs.
    const authorization = `Bearer ${await upstream.issuer.token({ sid: 'session-2' })}`
    const headers = { authorization, 'x-forwarded-for': '192.0.2.8' }
    const become = (status: number) =>
      until(async () => (tally(await onAll('/api/mine', { headers }, 4))[status] === 12 ? true : undefined))
    await become(200)
    redis.signal('SIGSTOP')
    try {
      for (const { adminUrl } of gateways)
        await until(async () => ((await call(`${adminUrl}/readyz`)).body.includes('away') ? true : undefined))
      await become(200)
      for (const gateway of gateways) {
        const file = join(gateway.dir, 'gateway.json')
        const config = JSON.parse(readFileSync(file, 'utf8'))
        const onStoreFailure = { ...config.onStoreFailure, revocations: 'deny' }
        writeFileSync(file, JSON.stringify({ ...config, onStoreFailure }))
      }
      await become(503)
      for (const { adminUrl } of gateways) assert.equal((await call(`${adminUrl}/readyz`)).status, 200)
    } finally {
      redis.signal('SIGCONT')
    }
    await become(200)
  })
})

describe('two gateways with one store', { skip: NO_REDIS }, () => {
  it('both refuse a session that ended while one restarted and the store was away', async () => {
    const redis = await startRedis()
    const held = new Map<unknown, ServerResponse>()
    const group = await startGroup({
      store: `redis://127.0.0.1:${redis.port}`,
      gateways: 2,
      config: { routes: [{ path: '/*', auth: ['bearer'] }], onStoreFailure: { deadlineMs: 500 } },
      respond: (req, res) => {
        if (req.url === '/held') held.set(req.headers['x-auth-session'], res)
        else res.end()
      },
    })
    const [one, other] = group.gateways as [TestGateway, TestGateway]
    try {
      const bearer = async (sid: string) => {
        const authorization = `Bearer ${await group.upstream.issuer.token({ sid })}`
        return { headers: { authorization } }
      }
      const [first, second] = [await bearer('first'), await bearer('second')]
      const ends = ['first', 'second'].map(
        (sid) => [sid, call(`${one.url}/held`, sid === 'first' ? first : second)] as const,
      )
      await until(() => (held.size === 2 ? true : undefined))
      assert.equal((await one.restart()).restarted, true)
      const outages = () => one.process.lines.filter(({ msg }) => msg === 'the shared store is away').length
      const before = outages()
      redis.signal('SIGSTOP')
      for (const [sid, answer] of ends) {
        held.get(sid)?.setHeader('X-Revoke-Session', sid).end()
        assert.equal((await answer).status, 200)
        // Waits until both processes know that the store is away, so that the old one cannot send the second end.
        await until(() => (outages() >= before + 2 ? true : undefined))
      }
      await one.process.line(({ msg }) => msg === 'this process ends: a new one serves in its place')
      redis.signal('SIGCONT')
      await until(async () => ((await call(other.url, second)).status === 401 ? true : undefined))
    } finally {
      redis.signal('SIGCONT')
      one.kill()
      await group.stop()
      await redis.stop()
    }
  })
})

describe('a gateway whose store cannot be reached', { skip: NO_REDIS }, () => {
  it('is not ready, and says why', async () => {
    const gateway = await startGateway({
      config: { upstream: 'http://127.0.0.1:9', routes: [{ path: '/*', auth: ['none'] }] },
      env: { GATEWAY_STORE: 'redis://127.0.0.1:1' },
    })
    const { status, body } = await call(`${gateway.adminUrl}/readyz`)
    assert.equal(status, 503)
    assert.match(body, /the shared store has not been reached/)
    assert.equal(await gateway.end('SIGTERM'), 0)
  })
})
