import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { call } from './client.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { mountSmallDisk, NO_SMALL_DISK, type SmallDisk } from './small-disk.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const SECRET = `whsec_${Buffer.from('a webhook secret of 32 bytes, ok').toString('base64')}`
const BODY = '{"test": 2432232314}'

const probe = mountSmallDisk()
probe?.remove()

describe('a data directory on a full disk', { skip: probe === undefined ? NO_SMALL_DISK : false }, () => {
  let upstream: TestUpstream
  let disk: SmallDisk
  const gateways: TestGateway[] = []

  before(async () => {
    upstream = await startUpstream((req, res) => {
      const ended = req.headers['x-test-revoke']
      if (typeof ended === 'string') res.setHeader('X-Revoke-Session', ended)
      res.end('done')
    })
  })
  after(async () => {
    for (const gateway of gateways) await gateway.end('SIGKILL')
    upstream.close()
  })

  const start = async (before?: TestGateway, config?: object) => {
    const gateway = await startGateway({
      config: {
        upstream: upstream.url,
        routes: [
          { path: '/mine', auth: ['bearer'] },
          { path: '/hooks', auth: ['hmac'] },
          { path: '/counted', auth: ['none'] },
        ],
        ...(config && { limits: config }),
      },
      limits: [{ path: '/counted', limit: 200, window: '1h', purpose: 'a test' }],
      clients: [{ id: 'acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'ACME_WEBHOOK_SECRET' }] } }],
      env: {
        GATEWAY_DATA_DIR: join(disk.dir, 'data'),
        ACME_WEBHOOK_SECRET: SECRET,
      },
      ...(before && { dir: before.dir }),
    })
    gateways.push(gateway)
    return gateway
  }
  const ask = async (gateway: TestGateway, sid: string, ends?: string) => {
    const authorization = `Bearer ${await upstream.issuer.token({ sid })}`
    const headers = { authorization, ...(ends !== undefined && { 'x-test-revoke': ends }) }
    return (await call(`${gateway.url}/mine`, { headers })).status
  }
  const deliver = async (gateway: TestGateway, id: string, atMs: number) => {
    const headers = {
      'x-api-key': 'key_acme',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(atMs / 1000)),
      'webhook-signature': new Webhook(SECRET).sign(id, new Date(atMs), BODY),
    }
    return (await call(`${gateway.url}/hooks`, { method: 'POST', headers, body: BODY })).status
  }
  const recordOf = (gateway: TestGateway, type: string) =>
    gateway.audit().find((record) => record.type === type && record.store === 'webhooks')
  const ready = async (gateway: TestGateway) => {
    const { status, body } = await call(`${gateway.adminUrl}/readyz`)
    return `${status} ${body.trim()}`
  }

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    for (const freed of [true, false]) {
      // A short run has two of the four combinations.
      const isPaired = (signal === 'SIGTERM') === freed
      if (!isPaired && LONGER === 1) continue
      const title = `${freed ? 'freed, ' : ''}${signal}`
      it(`accepts no ended session, and no delivery twice: ${title}`, async () => {
        disk = mountSmallDisk() as SmallDisk
        try {
          const gateway = await start()
          const atMs = Date.now()
          assert.equal(await ask(gateway, 'sid-1'), 200)
          assert.equal(await deliver(gateway, 'msg_before', atMs), 200)
          // More bytes than fit into the pages that the files have begun.
          for (let i = 0; i < 60; i++) assert.equal(await ask(gateway, 'sid-2', `old-${i}`), 200)
          disk.fill()
          for (let i = 0; i < 60; i++) await ask(gateway, 'sid-2', `full-${i}`)
          assert.equal(await ask(gateway, 'sid-2', 'sid-1'), 200)
          assert.equal(await ask(gateway, 'sid-1'), 401)
          const deliveries = Array.from({ length: 60 }, (_, i) => `msg_${i}`)
          const accepted: string[] = []
          for (const id of deliveries) {
            const status = await deliver(gateway, id, atMs)
            assert.ok(status === 200 || status === 503, String(status))
            if (status === 200) accepted.push(id)
          }
          assert.ok(accepted.length < deliveries.length)
          await until(async () => (await ready(gateway)).startsWith('200 degraded: ') || undefined)
          await until(() => recordOf(gateway, 'STORE_DEGRADED'))
          assert.equal(await gateway.metric('gateway_store_writable{store="webhooks"}'), 0)
          if (freed) {
            disk.free()
            await until(async () => (await ready(gateway)) === '200 ready' || undefined)
            await until(() => recordOf(gateway, 'STORE_RESTORED'))
            assert.equal(await gateway.metric('gateway_store_writable{store="webhooks"}'), 1)
          }
          await gateway.end(signal)
          const next = await start(gateway)
          assert.equal(await ask(next, 'sid-1'), 401)
          assert.equal(await ask(next, 'sid-2'), 200)
          for (const id of ['msg_before', ...accepted]) assert.equal(await deliver(next, id, atMs), 409, id)
          if (freed) assert.equal(await deliver(next, 'msg_59', atMs), 200)
          await next.end('SIGKILL')
        } finally {
          disk.remove()
        }
      })
    }
  }

  it('lets no more requests through than a limit allows, over kill -9 and restarts', async () => {
    disk = mountSmallDisk() as SmallDisk
    try {
      const admit = async (gateway: TestGateway, count: number) => {
        let admitted = 0
        for (let i = 0; i < count; i++) {
          const { status } = await call(`${gateway.url}/counted`)
          if (status === 200) admitted++
          else assert.ok(status === 429 || status === 503, String(status))
        }
        return admitted
      }
      const first = await start()
      let admitted = await admit(first, 60)
      assert.equal(admitted, 60)
      disk.fill()
      // Some records still fit into the page that the segment has begun.
      for (let i = 0; i < 4; i++) admitted += await admit(first, 35)
      assert.ok(admitted < 200)
      await until(() => first.audit().find(({ store }) => store === 'limits') || undefined)
      assert.equal(await ready(first), '503 limits cannot be written')
      assert.equal(await first.metric('gateway_store_writable{store="limits"}'), 0)
      await first.end('SIGKILL')
      const second = await start(first)
      admitted += await admit(second, 60)
      await second.end('SIGTERM')
      disk.free()
      const third = await start(second)
      await until(async () => (await ready(third)) === '200 ready' || undefined)
      admitted += await admit(third, 200 - admitted + 20)
      assert.equal(admitted, 200)
      await third.end('SIGKILL')
    } finally {
      disk.remove()
    }
  })

  it('counts limits in memory and stays ready with onJournalFailure "degraded"', async () => {
    disk = mountSmallDisk() as SmallDisk
    try {
      const gateway = await start(undefined, { onJournalFailure: 'degraded' })
      disk.fill()
      let admitted = 0
      for (let i = 0; i < 250; i++) {
        if ((await call(`${gateway.url}/counted`)).status === 200) admitted++
      }
      assert.equal(admitted, 200)
      assert.match(await ready(gateway), /^200 degraded: limits are counted in memory only/)
      await gateway.end('SIGKILL')
    } finally {
      disk.remove()
    }
  })

  it('makes the gateway refuse all bearer tokens if the reserve cannot take the end of a session either', async () => {
    disk = mountSmallDisk() as SmallDisk
    try {
      const gateway = await start()
      assert.equal(await ask(gateway, 'sid-2'), 200)
      disk.fill()
      const reserve = join(disk.dir, 'data', 'revocations.reserve.ndjson')
      rmSync(reserve)
      // A directory in place of the reserve cannot be removed to make room.
      mkdirSync(reserve)
      disk.fill()
      let status = 200
      // Some records still fit into the page that the file has begun.
      for (let i = 0; status === 200 && i < 200; i++) status = await ask(gateway, 'sid', `sid-${i}`)
      assert.equal(status, 503)
      assert.equal(await ask(gateway, 'other'), 503)
      assert.equal(await ready(gateway), '503 the end of a session cannot be written')
      disk.free()
      await until(async () => (await ask(gateway, 'other')) === 200 || undefined)
      assert.equal(await ask(gateway, 'sid-0'), 401)
      rmSync(reserve, { recursive: true })
      await until(async () => (await ready(gateway)) === '200 ready' || undefined)
      assert.match(readFileSync(join(disk.dir, 'data', 'revocations.ndjson'), 'utf8'), /"sid-0"/)
      await gateway.end('SIGKILL')
    } finally {
      disk.remove()
    }
  })
})
