import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { Agent } from 'node:https'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { contradicted, unpaired } from './audit-pairs.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, secureCall, secureOptions, secureSocket, type TlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { openWire, statuses } from './wire.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
/** Longer than the old process needs for its last requests, even on a busy machine. */
const LONG_DRAIN_MS = 60_000

describe('a restart', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const held: ServerResponse[] = []
  const restart = () => restarted(gateway)

  /** Expects a failed restart. @returns the reason */
  const notRestarted = async () => {
    const { restarted, text } = await gateway.restart()
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
      config: {
        upstream: upstream.url,
        timeouts: { drainMs: LONG_DRAIN_MS },
        routes: [{ path: '/*', auth: ['none'] }],
      },
      limits: [
        { path: '/hourly', limit: 60, window: '1h', purpose: 'a test' },
        { path: '/minutely', limit: 60, window: '10m', purpose: 'a test' },
      ],
    })
  })
  after(() => {
    gateway.kill()
    upstream.close()
  })

  it('keeps idle connections, half a request, and a request under way', async () => {
    const idle = await openWire(gateway.port)
    idle.send(GET)
    await idle.has('whole')
    const half = await openWire(gateway.port)
    half.send(GET.slice(0, 20))
    const waiting = await openWire(gateway.port)
    waiting.send(`GET /held HTTP/1.1\r\nHost: a\r\nX-Request-ID: under-way\r\n\r\n${GET}`)
    await until(() => (held.length === 1 ? true : undefined))
    assert.notEqual((await restart()).pid, gateway.process.child.pid)
    idle.send(GET)
    await idle.has(/whole[\s\S]*whole/)
    half.send(GET.slice(20))
    await half.has('whole')
    held[0]?.end('held')
    await waiting.has(/held[\s\S]*whole/)
    assert.deepEqual(statuses(waiting.received), [200, 200])
    await gateway.process.line(({ msg }) => msg === 'this process ends: a new one serves in its place')
    const [, response] = await gateway.pair('under-way')
    assert.deepEqual([response.statusCode, response.recovered], [200, undefined])
    idle.send(GET)
    await idle.has(/whole[\s\S]*whole[\s\S]*whole/)
  })

  it('fails no request under load, and lets exactly as many through as the limits', async () => {
    let over = false
    let asked = 0
    const seen = new Map<string, number>()
    const statusOf = new Map<string, number>()
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
        const id = `opening-${asked++}`
        await call(gateway.url + path, { headers: { 'x-request-id': id } }).then(
          ({ status }) => {
            count(`${path} ${status}`)
            statusOf.set(id, status)
          },
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
      for (let i = 0; i < 2; i++) {
        await restart()
      }
      await until(() => (seen.has('/hourly 429') && seen.has('/minutely 429') ? true : undefined))
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
    assert.deepEqual(contradicted(gateway.audit(), statusOf), [])
  })

  it('is refused when the configuration is broken, or asks for another address', async () => {
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

  it('is refused while another one is under way', async () => {
    const reports = await Promise.all([gateway.restart(), gateway.restart()])
    for (const { restarted, text } of reports) {
      // On a slow machine the second may begin after the first.
      if (!restarted) assert.match(text, /a restart is under way/)
    }
    await serves()
  })

  it('is undone if the new process fails after it got the files', async () => {
    const file = join(gateway.dir, 'data', 'revocations.ndjson')
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
    // Files that the other process has replaced must not count as faults.
    assert.deepEqual(
      gateway.audit().filter(({ type }) => type === 'STORE_DEGRADED'),
      [],
    )
  })

  it('pairs all audit records', () => {
    assert.deepEqual(unpaired(gateway.audit()), [])
  })
})

describe('a restart of a gateway with an HTTPS listener', () => {
  const uri = 'urn:test:bank-b'
  let tls: TlsSetup
  let upstream: TestUpstream
  let gateway: TestGateway
  let held: ServerResponse | undefined
  const restart = () => restarted(gateway)

  before(async () => {
    tls = await makeTlsSetup()
    upstream = await startUpstream((req, res) => {
      if (req.url === '/held' || req.headers['x-test-hold'] !== undefined) held = res
      else res.end('whole')
    })
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        timeouts: { drainMs: LONG_DRAIN_MS },
        routes: [
          { path: '/bank', auth: ['mtls'] },
          { path: '/mine', auth: ['bearer'] },
          { path: '/*', auth: ['none'] },
        ],
      },
      clients: [{ id: 'bank-b', mtls: { sanUri: uri } }],
      limits: [{ path: '/hourly', limit: 20, window: '1h', purpose: 'a test' }],
      env: tls.env,
    })
  })
  after(() => {
    gateway.kill()
    upstream.close()
  })

  it('keeps connections and a request under way, and serves the next request on idle TLS connections', async () => {
    const wires = await Promise.all([1, 2, 3].map(() => openWire(gateway.port)))
    for (const wire of wires) {
      wire.send(GET)
      await wire.has('whole')
    }
    const certificate = await tls.client({ subject: 'CN=b', san: [{ type: 'url', value: uri }] })
    const sockets = await Promise.all(
      [1, 2].map(() => secureSocket(gateway.tlsPort, secureOptions(tls.ca, certificate))),
    )
    const secure = sockets.map((socket) => {
      let text = ''
      socket.setEncoding('latin1').on('data', (piece: string) => {
        text += piece
      })
      const ask = async () => {
        const from = text.length
        socket.write('GET /bank HTTP/1.1\r\nHost: localhost\r\n\r\n')
        await until(() => (text.includes('whole', from) ? true : undefined))
        return text.slice(from)
      }
      return { ask, ended: once(socket, 'close') }
    })
    for (const { ask } of secure)
      assert.match(await ask(), /^HTTP\/1.1 200 [\s\S]*\r\nConnection: keep-alive\r\n/)
    const waiting = call(`${gateway.url}/held`, { headers: { 'x-request-id': 'under-way' } })
    await until(() => (held === undefined ? undefined : true))
    await restart()
    for (const { ask, ended } of secure) {
      assert.match(await ask(), /^HTTP\/1.1 200 [\s\S]*\r\nConnection: close\r\n/)
      await ended
    }
    for (const wire of wires) {
      wire.send(GET)
      await wire.has(/whole[\s\S]*whole/)
    }
    held?.end('held')
    assert.equal((await waiting).body, 'held')
    await gateway.process.line(({ msg }) => msg === 'this process ends: a new one serves in its place')
    const [, response] = await gateway.pair('under-way')
    assert.deepEqual([response.statusCode, response.recovered], [200, undefined])
    for (const wire of wires) {
      wire.send(GET)
      await wire.has(/whole[\s\S]*whole[\s\S]*whole/)
    }
    const clients = gateway
      .audit()
      .flatMap(({ type, clientId }) => (type === 'API_RESPONSE' ? [clientId] : []))
    assert.deepEqual(
      clients.filter((id) => id !== undefined),
      Array(4).fill('bank-b'),
    )
  })

  it('refuses a session that the last response of the old process ends', async () => {
    const token = await upstream.issuer.token({ sid: 'held' })
    const ask = (headers: Record<string, string> = {}) =>
      call(`${gateway.url}/mine`, { headers: { authorization: `Bearer ${token}`, ...headers } })
    held = undefined
    const logout = ask({ 'x-test-hold': '1' })
    const response = await until(() => held)
    await restart()
    assert.equal((await ask()).status, 200)
    response.setHeader('X-Revoke-Session', 'held').end()
    assert.equal((await logout).status, 200)
    // The new process learns of the end a moment after the client gets the response.
    await until(async () => ((await ask()).status === 401 ? true : undefined))
  })

  it('fails no request under load, and lets exactly as many through as the limits', async () => {
    let over = false
    const seen = new Map<string, number>()
    const count = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1)
    let asked = 0
    const statusOf = new Map<string, number>()
    const asking = async (ask: (headers: Record<string, string>) => Promise<{ readonly status: number }>) => {
      while (!over) {
        const id = `asking-${asked++}`
        await ask({ 'x-request-id': id }).then(
          ({ status }) => {
            count(String(status))
            statusOf.set(id, status)
          },
          (error: Error) => count(String(error)),
        )
      }
    }
    const { ca } = tls
    const agents = [new Agent({ keepAlive: true, maxSockets: 1 }), new Agent()]
    const clients = [
      ...[1, 2].map(() => asking((headers) => call(`${gateway.url}/hourly`, { headers }))),
      ...agents.map((agent) =>
        asking((headers) => secureCall({ port: gateway.tlsPort, path: '/hourly', ca, agent, headers })),
      ),
    ]
    await restart()
    await until(() => (seen.has('429') ? true : undefined))
    over = true
    await Promise.all(clients)
    assert.deepEqual([...seen.keys()].sort(), ['200', '429'])
    assert.equal(seen.get('200'), 20)
    assert.deepEqual(contradicted(gateway.audit(), statusOf), [])
  })

  it('is undone if the new process fails after it got the files', async () => {
    const file = join(gateway.dir, 'data', 'revocations.ndjson')
    const good = readFileSync(file)
    writeFileSync(file, '{"format":"revocations","version":99}\n')
    const report = await gateway.restart()
    writeFileSync(file, good)
    assert.match(report.text, /was written by a newer version/)
    assert.equal((await call(gateway.url)).body, 'whole')
    assert.equal((await call(`${gateway.url}/hourly`)).status, 429)
    await restart()
    assert.equal((await call(`${gateway.url}/hourly`)).status, 429)
  })

  it('pairs all audit records', () => {
    assert.deepEqual(unpaired(gateway.audit()), [])
  })
})

async function restarted(gateway: TestGateway): Promise<{ readonly pid: number }> {
  const { restarted, text } = await gateway.restart()
  assert.ok(restarted, text)
  return { pid: Number(/^process (\d+)/.exec(text)?.[1]) }
}

function answersIn(received: string): number {
  return received.split('HTTP/1.1 ').length - 1
}
