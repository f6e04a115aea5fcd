import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { launchChromium, NO_CHROMIUM } from './chromium.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/** RFC 6455 section 1.3. */
const MAGIC = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const WELCOME = 'welcome'

function switched(key: string): string {
  const accept = createHash('sha1').update(`${key}${MAGIC}`).digest('base64')
  return `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`
}

if (NO_CHROMIUM === undefined) describe('a browser that speaks HTTP/2', describeBrowser)
// A test, because the runner does not count skipped suites.
else it('a browser that speaks HTTP/2', { skip: NO_CHROMIUM })

function describeBrowser(): void {
  let upstream: TestUpstream
  let gateway: TestGateway
  let browser: Browser
  let page: Page
  const gone: string[] = []

  before(async () => {
    const tls = await makeTlsSetup()
    upstream = await startUpstream((req, res) => {
      const url = req.url ?? ''
      res.on('close', () => {
        if (!res.writableFinished) gone.push(url)
      })
      if (url === '/held') return
      if (url === '/page') res.setHeader('Content-Type', 'text/html')
      if (url === '/large') res.end('x'.repeat(2_000_000))
      else if (req.method === 'POST') req.pipe(res)
      else res.end('<!doctype html><title>A page</title>')
    })
    upstream.server.on('upgrade', (req: IncomingMessage, socket: Duplex) => {
      socket.on('error', () => {})
      socket.write(switched(String(req.headers['sec-websocket-key'])))
      // A text frame of the server (RFC 6455 section 5.2).
      socket.write(Buffer.from([0x81, WELCOME.length]))
      socket.write(WELCOME)
    })
    const { GATEWAY_TLS_PORT, GATEWAY_TLS_CERT, GATEWAY_TLS_KEY } = tls.env as Record<string, string>
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        routes: [
          { path: '/mine', auth: ['bearer'] },
          { path: '/*', auth: ['none'], methods: ['GET', 'POST'] },
        ],
      },
      env: { GATEWAY_TLS_PORT, GATEWAY_TLS_CERT, GATEWAY_TLS_KEY } as Record<string, string>,
    })
    browser = await launchChromium()
    const context = await browser.newContext({ ignoreHTTPSErrors: true })
    page = await context.newPage()
    await page.goto(`https://localhost:${gateway.tlsPort}/page`)
  })
  after(async () => {
    await gateway?.end()
    upstream?.close()
  })

  it('loads a page and its further requests over HTTP/2', async () => {
    const seen = await page.evaluate(async () => {
      const texts = await Promise.all(
        Array.from({ length: 60 }, async (_, at) => (await fetch(`/small/${at}`)).status),
      )
      const large = await (await fetch('/large')).text()
      const entries = performance.getEntries() as PerformanceResourceTiming[]
      const protocols = entries.flatMap(({ nextHopProtocol }) => nextHopProtocol ?? [])
      return { statuses: [...new Set(texts)], large: large.length, protocols: [...new Set(protocols)] }
    })
    assert.deepEqual(seen, { statuses: [200], large: 2_000_000, protocols: ['h2'] })
  })

  it('opens a WebSocket too, over an HTTP/1.1 connection', async () => {
    const seen = await page.evaluate(
      (url) =>
        new Promise((resolve) => {
          const socket = new WebSocket(url)
          socket.onmessage = ({ data }) => resolve(data)
          socket.onclose = () => resolve('closed')
        }),
      `wss://localhost:${gateway.tlsPort}/socket`,
    )
    assert.equal(seen, WELCOME)
  })

  it('sends bodies, and reads the status and headers of refusals', async () => {
    const seen = await page.evaluate(async () => {
      const body = 'y'.repeat(300_000)
      const back = await (await fetch('/echo', { method: 'POST', body })).text()
      const refused = await fetch('/mine')
      const { code } = (await refused.json()) as { code: string }
      return {
        same: back === body,
        status: refused.status,
        code,
        frame: refused.headers.get('x-frame-options'),
      }
    })
    assert.deepEqual(seen, { same: true, status: 401, code: 'missing_token', frame: 'DENY' })
  })

  it('cancels a request, and the trail says so', async () => {
    const begun = page.evaluate(async () => {
      const stop = new AbortController()
      Object.assign(globalThis, { stop })
      return fetch('/held', { signal: stop.signal }).catch((error: Error) => error.name)
    })
    await until(() => (gateway.audit().some(({ path }) => path === '/held') ? true : undefined))
    await page.evaluate(() => (globalThis as unknown as { stop: AbortController }).stop.abort())
    assert.equal(await begun, 'AbortError')
    await until(() => (gone.includes('/held') ? true : undefined))
    const { requestId } = gateway.audit().find(({ path }) => path === '/held') ?? {}
    assert.equal((await gateway.pair(String(requestId)))[1].statusCode, 499)
  })
}
