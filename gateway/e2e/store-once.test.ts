import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { Agent, type ServerResponse } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { calculateJwkThumbprint, exportJWK } from 'jose'
import { randomDPoPKeyPair } from 'openid-client'
import { Webhook } from 'standardwebhooks'
import { NO_REDIS, type RedisServer, startRedis } from '../store/redis-server.test-support.ts'
import { type Call, call } from './client.ts'
import { LONGER } from './long-runs.ts'
import { ath, proof } from './proofs.ts'
import { until } from './running-gateway.ts'
import { type StoreGroup, startGroup } from './store-group.ts'

const IS_LONG = LONGER > 1
const LOGOUTS = IS_LONG ? 1000 : 30
/** This share of logouts must be known to the other gateways in this time. Other tests delay a short run. */
const [SHARE, MOST_MS] = IS_LONG ? ([0.99, 100] as const) : ([0.5, 500] as const)
/** Each message is sent twice to each of three gateways, so 10,000 tries in a long run. */
const MESSAGES = IS_LONG ? 1667 : 50
const COPIES = 2
const AT_ONCE = 5
const SECRET = `whsec_${Buffer.from('a webhook secret of 32 bytes, ok').toString('base64')}`

describe('three gateways and one store', { skip: NO_REDIS }, () => {
  let redis: RedisServer
  let group: StoreGroup
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  let isHolding = false
  let held: ServerResponse | undefined

  before(async () => {
    redis = await startRedis()
    group = await startGroup({
      store: `redis://127.0.0.1:${redis.port}`,
      config: {
        routes: [
          { path: '/api/logout', methods: ['POST'], auth: ['bearer'] },
          { path: '/api/mine', auth: ['bearer'] },
          { path: '/api/hooks', methods: ['POST'], auth: ['hmac'] },
          { path: '/api/github', methods: ['POST'], auth: ['hmac'], webhookClient: 'github' },
        ],
        onStoreFailure: { deadlineMs: 10_000 },
        authThrottle: { failures: 0 },
      },
      clients: [
        { id: 'acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'TEST_SECRET' }] } },
        { id: 'github', hmac: { scheme: 'github', secrets: [{ env: 'GITHUB_SECRET' }] } },
      ],
      env: { TEST_SECRET: SECRET, GITHUB_SECRET: SECRET },
      respond: (req, res) => {
        if (req.url === '/api/github' && isHolding) {
          isHolding = false
          held = res
          return
        }
        if (req.url === '/api/logout')
          res.setHeader('X-Revoke-Session', String(req.headers['x-auth-session']))
        res.end('{}')
      },
    })
  })
  after(async () => {
    agent.destroy()
    await group.stop()
    await redis.stop()
  })

  const ask = (port: number | undefined, path: string, options: Call) =>
    call(`http://127.0.0.1:${port}${path}`, { agent, ...options })

  it('refuse a session everywhere less than 100 ms after it ended at one of them', async (test) => {
    const [here, ...others] = group.ports()
    const tookMs: number[] = []
    for (let i = 0; i < LOGOUTS; i++) {
      const headers = { authorization: `Bearer ${await group.upstream.issuer.token({ sid: `ended-${i}` })}` }
      const states = await Promise.all(others.map((port) => ask(port, '/api/mine', { headers })))
      assert.deepEqual(
        states.map(({ status }) => status),
        [200, 200],
      )
      assert.equal((await ask(here, '/api/logout', { method: 'POST', headers })).status, 200)
      const endedAtMs = performance.now()
      const refusedAt = async (port: number) => {
        while ((await ask(port, '/api/mine', { headers })).status !== 401)
          assert.ok(performance.now() - endedAtMs < 60_000)
      }
      await Promise.all(others.map(refusedAt))
      tookMs.push(performance.now() - endedAtMs)
    }
    tookMs.sort((a, b) => a - b)
    const at = (share: number) => tookMs[Math.ceil(LOGOUTS * share) - 1] as number
    test.diagnostic(
      `${LOGOUTS} logouts: p50 ${at(0.5).toFixed(1)} ms, p99 ${at(0.99).toFixed(1)} ms, at most ${at(1).toFixed(1)} ms`,
    )
    assert.ok(at(SHARE) < MOST_MS, `${at(SHARE)} ms`)
  })

  /** Sends every message to all gateways at once. Each must be accepted once. @returns how often each status came */
  async function tries(
    path: string,
    messageOf: (i: number) => Promise<Call>,
  ): Promise<Record<number, number>> {
    const counts: Record<number, number> = {}
    const sendOne = async (i: number) => {
      const message = await messageOf(i)
      const ports = group.ports().flatMap((port) => Array.from({ length: COPIES }, () => port))
      const statuses = (await Promise.all(ports.map((port) => ask(port, path, message)))).map(
        ({ status }) => status,
      )
      assert.equal(statuses.filter((status) => status === 200).length, 1, `${path} ${i}: ${statuses}`)
      for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1
    }
    for (let i = 0; i < MESSAGES; i += AT_ONCE)
      await Promise.all(Array.from({ length: Math.min(AT_ONCE, MESSAGES - i) }, (_, j) => sendOne(i + j)))
    return counts
  }

  it('accept each webhook once', async () => {
    const counts = await tries('/api/hooks', async (i) => {
      const at = new Date()
      return {
        method: 'POST',
        headers: {
          'x-api-key': 'key_acme',
          'webhook-id': `msg_${i}`,
          'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
          'webhook-signature': new Webhook(SECRET).sign(`msg_${i}`, at, '{}'),
        },
        body: '{}',
      }
    })
    assert.deepEqual(counts, { 200: MESSAGES, 409: (3 * COPIES - 1) * MESSAGES })
  })

  it('refuse a copy of a webhook that is under way, and accept it again if the service failed', async () => {
    const signature = createHmac('sha256', SECRET).update('{}').digest('hex')
    const headers = { 'x-hub-signature-256': `sha256=${signature}`, 'x-github-delivery': 'one' }
    const ports = group.ports()
    const deliver = (gateway: number) =>
      ask(ports[gateway], '/api/github', { method: 'POST', headers, body: '{}' })
    const copiesAreRefused = async () => {
      for (const gateway of [0, 1, 2]) assert.equal((await deliver(gateway)).status, 409)
    }
    const endings: [end: (response: ServerResponse) => unknown, status: number][] = [
      [(response) => response.writeHead(500).end(), 500],
      [(response) => response.destroy(), 502],
      [(response) => response.end(), 200],
    ]
    const names = async () => (await redis.command('KEYS', '*')) as string[]
    const before = new Set(await names())
    for (const [gateway, [end, status]] of endings.entries()) {
      await until(async () => ((await names()).every((name) => before.has(name)) ? true : undefined))
      held = undefined
      isHolding = true
      const begun = deliver(gateway)
      const response = await until(() => held)
      await copiesAreRefused()
      end(response)
      assert.equal((await begun).status, status)
    }
    await copiesAreRefused()
  })

  it('refuse a message that another one accepted, also after the store has lost its data', async () => {
    const keys = await randomDPoPKeyPair('ES256')
    const cnf = { jkt: await calculateJwkThumbprint(await exportJWK(keys.publicKey)) }
    const token = await group.upstream.issuer.token({ sid: 'bound-too', cnf })
    const at = new Date()
    const messages = await Promise.all(
      Array.from({ length: 15 }, async (_, i): Promise<readonly [path: string, message: Call]> => {
        const signature = new Webhook(SECRET).sign(`lost_${i}`, at, '{}')
        const webhook = {
          'x-api-key': 'key_acme',
          'webhook-id': `lost_${i}`,
          'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
          'webhook-signature': signature,
        }
        if (i % 2 === 0) return ['/api/hooks', { method: 'POST', headers: webhook, body: '{}' }]
        const dpop = await proof(keys, { htm: 'GET', htu: 'http://localhost:8080/api/mine', ath: ath(token) })
        return ['/api/mine', { headers: { authorization: `DPoP ${token}`, dpop } }]
      }),
    )
    const [here, ...others] = group.ports()
    const sendAll = (port: number | undefined) =>
      Promise.all(messages.map(async ([path, message]) => (await ask(port, path, message)).status))
    const names = async () => (await redis.command('KEYS', '*')) as string[]
    const before = new Set(await names())
    assert.deepEqual(await sendAll(here), Array(15).fill(200))
    const entries = (await names()).filter((name) => !before.has(name))
    assert.equal(entries.length, 15)
    await redis.command('FLUSHALL')
    await until(async () => ((await redis.command('EXISTS', ...entries)) === 15 ? true : undefined))
    const refused = messages.map(([path]) => (path === '/api/hooks' ? 409 : 401))
    for (const port of others) assert.deepEqual(await sendAll(port), refused)
  })

  it('accept each DPoP proof once', async () => {
    const keys = await randomDPoPKeyPair('ES256')
    const jkt = await calculateJwkThumbprint(await exportJWK(keys.publicKey))
    const token = await group.upstream.issuer.token({ sid: 'bound', cnf: { jkt } })
    const counts = await tries('/api/mine', async () => {
      const dpop = await proof(keys, { htm: 'GET', htu: 'http://localhost:8080/api/mine', ath: ath(token) })
      return { headers: { authorization: `DPoP ${token}`, dpop } }
    })
    assert.deepEqual(counts, { 200: MESSAGES, 401: (3 * COPIES - 1) * MESSAGES })
  })
})
