import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { Limiter } from '../../limits/limiter.ts'
import { AdminGuard, createAdminServer } from '../admin-server.ts'
import { createMetrics } from '../metrics.ts'
import { ConsoleFeed, MAX_LISTENERS } from './console-feed.ts'
import { consoleRoutes } from './console-routes.ts'
import type { RunbookSettings } from './runbook-page.ts'

const TOKEN = 't'.repeat(32)
const AUTHORIZED = { headers: { authorization: `Bearer ${TOKEN}` } }

describe('the paths of the console', () => {
  const metrics = createMetrics({ version: '1' })
  const guard = new AdminGuard({ names: [], token: TOKEN })
  const feed = new ConsoleFeed({
    metrics,
    readiness: () => undefined,
    degradation: () => undefined,
    config: () => ({ version: '1', hash: '', parts: {} }),
    limiter: new Limiter({ clock: Date.now }),
  })
  const settings = {
    adminTokenFile: '/run/token',
    audit: { file: '/trail' },
    configFile: '/etc/gateway.json',
    dataDir: '/data',
    upstream: [],
  } as unknown as RunbookSettings
  let server: Server
  let url: string
  before(async () => {
    server = createAdminServer(
      guard,
      consoleRoutes(feed, guard, () => settings),
    ).listen(0, '127.0.0.1')
    await once(server, 'listening')
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  after(() => {
    feed.stop()
    server.close()
    server.closeAllConnections()
  })

  const firstEvent = async (response: Response) => {
    const { value } = await (response.body as ReadableStream<Uint8Array>).getReader().read()
    return Buffer.from(value ?? []).toString('utf8')
  }

  it('the page is HTML whatever Accept says, with a policy that allows nothing inline and nothing foreign', async () => {
    for (const accept of ['*/*', 'application/json', 'text/plain']) {
      const page = await fetch(url, { headers: { accept } })
      assert.deepEqual([page.status, page.headers.get('content-type')], [200, 'text/html; charset=utf-8'])
      const policy = page.headers.get('content-security-policy') ?? ''
      assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'/)
      assert.match(policy, /require-trusted-types-for 'script'/)
      assert.doesNotMatch(policy, /unsafe|http|\*/)
      assert.equal(page.headers.get('x-frame-options'), 'DENY')
    }
  })

  it('all that the page loads is served here, and nothing is inline', async () => {
    const html = await (await fetch(url)).text()
    assert.doesNotMatch(html, /\sstyle=|<style|\son\w+=|https?:\/\/(?!www\.w3\.org)|<script>/)
    const loaded = [...html.matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)].map(([, path]) => path as string)
    assert.equal(loaded.length, 5)
    const seen = new Set(loaded)
    for (const path of seen) {
      const file = await fetch(url + path)
      assert.equal(file.status, 200, path)
      const type = file.headers.get('content-type') ?? ''
      assert.match(
        type,
        path.endsWith('.js') ? /^text\/javascript/ : path.endsWith('.css') ? /^text\/css/ : /^image/,
      )
      if (!path.endsWith('.js') || path.includes('uPlot')) continue
      for (const [, name] of (await file.text()).matchAll(/ from '\.\/([^']+)'/g))
        seen.add(`/console/${name}`)
    }
    assert.equal(seen.size, 10)
  })

  it("any browser gets the runbook, and only operators get this gateway's values for its examples", async () => {
    const html = await (await fetch(`${url}/runbook`)).text()
    assert.doesNotMatch(html, /\/run\/token|\/etc\/gateway\.json/)
    const [, script = ''] = /<script src="([^"]+)"/.exec(html) ?? []
    assert.equal((await fetch(url + script)).status, 200)
    assert.equal((await fetch(`${url}/runbook/values`)).status, 401)
    const response = await fetch(`${url}/runbook/values`, AUTHORIZED)
    const values = (await response.json()) as Record<string, string>
    assert.deepEqual(
      [values.ADMIN, values.TOKEN_FILE, values.GATEWAY_CONFIG],
      [url, '/run/token', '/etc/gateway.json'],
    )
  })

  it('events need the token, and with the token the first event comes at once', async () => {
    assert.equal((await fetch(`${url}/events`)).status, 401)
    const stop = new AbortController()
    const events = await fetch(`${url}/events`, { ...AUTHORIZED, signal: stop.signal })
    assert.equal(events.headers.get('content-type'), 'text/event-stream; charset=utf-8')
    assert.match(await firstEvent(events), /^event: history\ndata: \[/)
    stop.abort()
    const head = await fetch(`${url}/events`, { ...AUTHORIZED, method: 'HEAD' })
    assert.equal(head.status, 200)
  })

  it('one console too many gets 503, and the probes still have connections', async () => {
    const stop = new AbortController()
    const open = () => fetch(`${url}/events`, { ...AUTHORIZED, signal: stop.signal })
    const all = await Promise.all(Array.from({ length: MAX_LISTENERS }, open))
    assert.ok(all.every(({ status }) => status === 200))
    const full = await open()
    assert.deepEqual([full.status, full.headers.get('retry-after')], [503, '5'])
    await full.text()
    stop.abort()
    while (feed.isFull) await new Promise((done) => setImmediate(done))
  })

  it('a console that reads nothing is dropped once too much waits', async () => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(`GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`)
    const [request, response] = await once(server, 'request')
    assert.equal(request.url, '/events')
    socket.pause()
    let closed = false
    response.on('close', () => {
      closed = true
    })
    // This is more than the kernel's buffers hold.
    const large = Buffer.alloc(1024 * 1024, ' ')
    while (response.writableLength <= 256 * 1024) response.write(large)
    while (!closed) {
      await feed.look()
      await new Promise((done) => setImmediate(done))
    }
    socket.destroy()
  })

  it('a new token ends the consoles of the old one', async () => {
    const events = await fetch(`${url}/events`, AUTHORIZED)
    guard.replaceToken('n'.repeat(32))
    const ended = events.text().then(
      () => 'ended',
      () => 'ended',
    )
    await feed.look()
    assert.equal(await ended, 'ended')
  })
})
