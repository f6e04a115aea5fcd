import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { HealthCheckSettings } from '../config/upstreams/upstream-group.ts'
import { Field } from '../edge/syntax/field.ts'
import { Health } from './balancing/health.ts'
import {
  ok,
  type ScriptedOptions,
  scriptedUpstream,
  until,
  upstreamsTo,
} from './contract/scripted.test-support.ts'
import { HealthCheck } from './health-check.ts'

const SETTINGS: HealthCheckSettings = {
  path: '/healthz',
  host: undefined,
  intervalMs: 5000,
  timeoutMs: 2000,
  healthyAfter: 2,
  unhealthyAfter: 3,
  statuses: undefined,
}

/** A check whose next turn comes when the test says so. */
async function checked(t: TestContext, script: ScriptedOptions, settings: Partial<HealthCheckSettings> = {}) {
  const time = { nowMs: 1000 }
  const changes: string[] = []
  const planned: { readonly ms: number; readonly run: () => void }[] = []
  const scripted = await scriptedUpstream(script)
  const clock = () => time.nowMs
  const health = new Health(clock, () => {})
  const check = new HealthCheck({
    url: scripted.url,
    settings: { ...SETTINGS, ...settings },
    upstreamSecret: new Field('X-Gateway-Secret', 's'),
    health,
    client: upstreamsTo([scripted.url], { clock, connectMs: 60_000, headersMs: 2000, maxConnections: 2 }),
    timers: {
      after: (ms, run) => {
        const turn = { ms, run }
        planned.push(turn)
        return () => planned.splice(planned.indexOf(turn), 1)
      },
      random: () => 0.75,
    },
    onChange: (isUp, cause) => changes.push(isUp ? 'up' : `down: ${cause}`),
  })
  t.after(async () => {
    await check.stop()
    await scripted.close().catch(() => {})
  })
  check.start()
  const next = async (times = 1) => {
    for (let i = 0; i < times; i++) {
      const [turn] = planned.splice(0)
      assert.ok(turn)
      turn.run()
      await until(() => planned.length === 1)
    }
  }
  return { scripted, check, health, changes, planned, next, time }
}

const status = (code: number, fields = ''): ScriptedOptions => ({
  onRequest: ({ socket }) => socket.write(`HTTP/1.1 ${code} X\r\n${fields}Content-Length: 0\r\n\r\n`),
})

describe('a health check', () => {
  it('is a GET with no credential but the secret of the gateway, at an interval that is never quite the same', async (t) => {
    const { scripted, planned, next } = await checked(t, status(204))
    assert.deepEqual([planned.length, planned[0]?.ms], [1, 750])
    await next()
    assert.equal(planned[0]?.ms, 5250)
    const { host } = new URL(scripted.url)
    assert.deepEqual(scripted.requests[0]?.head.split('\r\n'), [
      'GET /healthz HTTP/1.1',
      `host: ${host}`,
      'connection: keep-alive',
      'User-Agent: countersign-health-check',
      'X-Gateway-Secret: s',
    ])
  })

  it('takes a target down after enough bad checks in a row, and up after enough good ones', async (t) => {
    let good = true
    const { health, changes, next } = await checked(t, {
      onRequest: ({ socket }) =>
        socket.write(good ? ok('fine') : 'HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n'),
    })
    good = false
    await next(2)
    good = true
    await next()
    good = false
    await next(2)
    assert.equal(health.passesChecks, true)
    await next()
    assert.deepEqual([health.passesChecks, health.isHealthy], [false, false])
    good = true
    await next()
    good = false
    await next()
    good = true
    await next()
    assert.equal(health.passesChecks, false)
    await next()
    assert.deepEqual([health.passesChecks, changes], [true, ['down: status 503', 'up']])
  })

  it('takes a target up when it is good once, if checks under other settings had found it down', async (t) => {
    const { health, check, planned, next } = await checked(t, status(200), { healthyAfter: 9 })
    planned.splice(0)
    health.checked(false)
    check.start()
    await next()
    assert.equal(health.passesChecks, true)
  })

  it('ends the back-off after a failure to connect, but does not end the avoidance after bad responses', async (t) => {
    const { health, next } = await checked(t, status(200))
    for (let i = 0; i < 3; i++) health.responded(503)
    health.connectFailed()
    assert.deepEqual([health.usable(), health.avoided()], [false, true])
    await next()
    assert.deepEqual([health.usable(), health.avoided()], [true, true])
  })

  it('does not follow a redirect, and takes other statuses for good when it is told so', async (t) => {
    const redirect = status(302, 'Location: http://127.0.0.1:9/\r\n')
    const { scripted, changes, next } = await checked(t, redirect, { unhealthyAfter: 1 })
    await next()
    assert.deepEqual([changes, scripted.requests.length], [['down: status 302'], 1])
    const told = await checked(t, status(302), { unhealthyAfter: 1, statuses: [302] })
    await told.next()
    assert.deepEqual(told.changes, [])
  })

  it('is bad when the head does not come in time, however much comes before it', async (t) => {
    const drip: ScriptedOptions = {
      onRequest: ({ socket }) => socket.write('HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nX: '),
    }
    for (const script of [{}, drip]) {
      const { scripted, changes, planned, time } = await checked(t, script, { unhealthyAfter: 1 })
      planned.splice(0)[0]?.run()
      await until(() => scripted.requests.length === 1)
      time.nowMs += 2000
      await until(() => planned.length === 1)
      assert.match(changes[0] ?? '', /^down: timeout: /)
      await until(() => scripted.open.size === 0)
    }
  })

  it('reads only a part of an endless body, and is judged by the head', async (t) => {
    let sent = 0
    const { scripted, changes, next } = await checked(t, {
      onRequest: ({ socket }) => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
        const more = () => {
          if (socket.destroyed) return
          sent += 16_384
          socket.write(`4000\r\n${'x'.repeat(16_384)}\r\n`)
          setImmediate(more)
        }
        more()
      },
    })
    await next(2)
    await until(() => scripted.open.size === 0)
    assert.deepEqual([changes, sent < 16 * 1024 * 1024], [[], true])
  })

  it('ends at its time-out when a body trickles, before the next check begins', async (t) => {
    const { scripted, planned, time, changes } = await checked(t, {
      onRequest: ({ socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx'),
    })
    planned.splice(0)[0]?.run()
    await until(() => scripted.requests.length === 1)
    assert.equal(planned.length, 0)
    time.nowMs += 2000
    await until(() => planned.length === 1)
    assert.deepEqual(changes, [])
  })

  it('is bad when nothing listens, and says nothing once it is stopped', async (t) => {
    const { scripted, check, changes, next, planned } = await checked(t, {}, { unhealthyAfter: 1 })
    await scripted.close()
    await next()
    assert.match(changes[0] ?? '', /^down: unreachable: /)
    await check.stop()
    assert.equal(planned.length, 0)
  })
})
