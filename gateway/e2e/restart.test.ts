import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { Agent } from 'node:https'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { askRestart } from '../process/restart/control-socket.ts'
import type { AuditRecord } from '../testing/audit-file.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, secureCall } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { openWire, statuses } from './wire.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

describe('a restart', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let pid: number
  const held: ServerResponse[] = []
  const dataDir = () => join(gateway.dir, 'data')

  const report = () =>
    until(async () => {
      const made = await askRestart(dataDir())
      // A process that has taken over is not replaced before the one before it has gone.
      return /try again later/.test(made.text) ? undefined : made
    })
  const restart = async () => {
    const { restarted, text } = await report()
    assert.ok(restarted, text)
    pid = Number(/^process (\d+)/.exec(text)?.[1])
  }

  /** @returns why not */
  const notRestarted = async () => {
    const { restarted, text } = await report()
    assert.equal(restarted, false)
    return text
  }
  const serves = async () => assert.equal((await call(gateway.url)).body, 'whole')

  before(async () => {
    upstream = await startUpstream((req, res) => {
      if (req.url === '/held') held.push(res)
      else res.end('whole')
    })
    gateway = await startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
      limits: [
        { path: '/hourly', limit: 60, window: '1h', purpose: 'a test' },
        { path: '/minutely', limit: 60, window: '1m', purpose: 'a test' },
      ],
    })
    pid = gateway.process.child.pid as number
  })
  after(() => {
    process.kill(pid, 'SIGKILL')
    upstream.close()
  })

  it('keeps idle connections, what has come of a request, and a request under way', async () => {
    const idle = await openWire(gateway.port)
    idle.send(GET)
    await idle.has('whole')
    const half = await openWire(gateway.port)
    half.send(GET.slice(0, 20))
    const waiting = await openWire(gateway.port)
    waiting.send(`GET /held HTTP/1.1\r\nHost: a\r\n\r\n${GET}`)
    await until(() => (held.length === 1 ? true : undefined))
    const before = pid
    await restart()
    assert.notEqual(pid, before)
    idle.send(GET)
    await idle.has(/whole[\s\S]*whole/)
    half.send(GET.slice(20))
    await half.has('whole')
    held[0]?.end('held')
    await waiting.has(/held[\s\S]*whole/)
    assert.deepEqual(statuses(waiting.received), [200, 200])
    await gateway.process.line(({ msg }) => msg === 'replaced')
    idle.send(GET)
    await idle.has(/whole[\s\S]*whole[\s\S]*whole/)
  })

  it('fails no request under load, and lets exactly as many through as the limits', async () => {
    let over = false
    const seen = new Map<string, number>()
    const count = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1)
    const keeping = async (path: string, thinkMs: number) => {
      const wire = await openWire(gateway.port)
      for (let asked = 1; !over; asked++) {
        wire.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
        await until(() => (answersIn(wire.received) === asked || wire.over !== undefined ? true : undefined))
        if (wire.over !== undefined) count(`broken: ${wire.over}`)
        if (wire.over !== undefined) break
        await sleep(thinkMs)
      }
      for (const status of statuses(wire.received)) count(`${path} ${status}`)
      wire.socket.destroy()
    }
    const opening = async (path: string) => {
      while (!over) {
        await call(gateway.url + path).then(
          ({ status }) => count(`${path} ${status}`),
          (error: Error) => count(String(error)),
        )
      }
    }
    const clients = [0, 1, 5, 20].flatMap((thinkMs) => [
      keeping('/hourly', thinkMs),
      keeping('/minutely', thinkMs),
      opening('/hourly'),
      opening('/minutely'),
    ])
    try {
      for (let i = 0; i < 3; i++) {
        await restart()
      }
    } finally {
      over = true
    }
    await Promise.all(clients)
    assert.deepEqual([...seen.keys()].sort(), [
      '/hourly 200',
      '/hourly 429',
      '/minutely 200',
      '/minutely 429',
    ])
    assert.deepEqual([seen.get('/hourly 200'), seen.get('/minutely 200')], [60, 60])
  })

  it('changes nothing when the configuration is broken, or asks for another address', async () => {
    const file = join(gateway.dir, 'gateway.json')
    const good = readFileSync(file, 'utf8')
    const refused = async (text: string) => {
      writeFileSync(file, text)
      const report = await notRestarted()
      writeFileSync(file, good)
      return report
    }
    assert.match(await refused('{'), /gateway\.json/)
    assert.match(
      await refused(JSON.stringify({ ...JSON.parse(good), adminHost: 'localhost' })),
      /adminHost is 127\.0\.0\.1 and would be localhost/,
    )
    await serves()
  })

  it('is one at a time', async () => {
    const reports = await Promise.all([report(), report()])
    for (const { restarted, text } of reports) {
      // On a slow machine the second may come after the first.
      if (!restarted) assert.match(text, /a restart is under way/)
    }
    const texts = reports.flatMap(({ restarted, text }) => (restarted ? [text] : []))
    const replaced = texts.map((text) => /in place of process (\d+)/.exec(text)?.[1])
    const serving = texts.map((text) => /^process (\d+)/.exec(text)?.[1])
    pid = Number(serving.find((one) => !replaced.includes(one)))
    await serves()
  })

  it('goes back to its work when the other process fails with the files in its hands', async () => {
    const file = join(dataDir(), 'revocations.ndjson')
    const good = readFileSync(file)
    const idle = await openWire(gateway.port)
    idle.send(GET)
    await idle.has('whole')
    const waiting = call(`${gateway.url}/held`)
    await until(() => (held.length === 2 ? true : undefined))
    writeFileSync(file, '{"format":"revocations","version":99}\n')
    assert.match(await notRestarted(), /was written by a newer version/)
    writeFileSync(file, good)
    held[1]?.end('held')
    assert.equal((await waiting).body, 'held')
    idle.send(GET)
    await idle.has(/whole[\s\S]*whole/)
    await serves()
    assert.equal((await call(`${gateway.url}/hourly`)).status, 429)
    await restart()
    await serves()
    assert.equal((await call(`${gateway.url}/hourly`)).status, 429)
  })

  it('pairs all audit records', () => {
    assert.deepEqual(unpaired(gateway.audit()), [])
  })
})

describe('a restart of a gateway with an HTTPS listener', () => {
  it('ends TLS connections with a response, and loses no request of clients that go on asking', async () => {
    const tls = await makeTlsSetup()
    const upstream = await startUpstream((_req, res) => res.end('whole'))
    const gateway = await startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
      env: tls.env,
    })
    const statusOf = async (agent: Agent) =>
      (await secureCall({ port: gateway.tlsPort, path: '/', ca: tls.ca, agent })).status
    let over = false
    const asking = async (agent: Agent) => {
      while (!over) assert.equal(await statusOf(agent), 200)
    }
    const clients = [new Agent({ keepAlive: true, maxSockets: 1 }), new Agent()].map(asking)
    const { restarted, text } = await askRestart(join(gateway.dir, 'data'))
    over = true
    await Promise.all(clients)
    assert.ok(restarted, text)
    assert.equal(await statusOf(new Agent()), 200)
    process.kill(Number(/^process (\d+)/.exec(text)?.[1]), 'SIGKILL')
    upstream.close()
  })
})

function answersIn(received: string): number {
  return received.split('HTTP/1.1 ').length - 1
}

/** The request ids that do not have exactly one record of each type. */
function unpaired(records: readonly AuditRecord[]): unknown[] {
  const types = new Map<string, string[]>()
  for (const { type, requestId } of records) {
    if (requestId !== undefined) types.set(requestId, [...(types.get(requestId) ?? []), type])
  }
  return [...types].filter(([, of]) => of.join() !== 'API_REQUEST,API_RESPONSE')
}
