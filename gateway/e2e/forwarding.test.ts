import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { MANDATORY_HEADERS } from '../edge/rules/policy/response-policy.ts'
import { call, sendBytes, statusOf } from './client.ts'
import { heldBytes, MEASURABLE } from './held-memory.ts'
import { commonGateway, startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { headerLines, headerOf, openWire, statuses, type Wire } from './wire.ts'

const HOST = 'Host: gateway\r\n'
const CLOSE = `${HOST}Connection: close\r\n\r\n`
const LARGE = 100 * 1024 * 1024
const PIECE = Buffer.alloc(64 * 1024, 'countersign')
/**
 * The kernel may hold this in the buffers of four sockets. On many machines one buffer takes up to 33 MB. The gateway's
 * own memory is measured apart.
 */
const HELD_AT_MOST = 90 * 1024 * 1024

/** The request as the upstream saw it. Most paths respond with it, as JSON. */
interface Echo {
  readonly method: string
  readonly url: string
  readonly rawHeaders: readonly string[]
  readonly body: string
}

/** Values of a header as the upstream saw it, in order. */
function values(echo: Echo, name: string): string[] {
  return echo.rawHeaders.filter((_, i) => i % 2 === 1 && echo.rawHeaders[i - 1]?.toLowerCase() === name)
}

function echoOf(response: string): Echo {
  const body = Buffer.from(response.slice(response.indexOf('\r\n\r\n') + 4), 'latin1')
  return JSON.parse(body.toString('utf8')) as Echo
}

/** Waits until the value has not changed for a while. */
async function standing(value: () => number): Promise<number> {
  let last = -1
  let times = 0
  return until(() => {
    times = value() === last && last > 0 ? times + 1 : 0
    last = value()
    return times > 30 ? last : undefined
  })
}

/** Writes `bytes` in pieces, as fast as they are taken. `written` counts them meanwhile. */
function pour(stream: ServerResponse | ReturnType<typeof request>, bytes: number): { written: number } {
  const progress = { written: 0 }
  const write = () => {
    while (progress.written < bytes) {
      progress.written += PIECE.length
      if (!stream.write(PIECE)) return
    }
    stream.end()
  }
  stream.on('drain', write)
  write()
  return progress
}

interface Held {
  readonly req: IncomingMessage
  readonly res: ServerResponse
}

describe('forwarding', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  /** Requests to /hold that wait for the test to do something with them. */
  const held: Held[] = []
  /** How often each path was asked for. */
  const asked = new Map<string, number>()

  const raw = (res: ServerResponse, text: string) => res.socket?.end(Buffer.from(text, 'latin1'))
  const scripts: Record<string, (res: ServerResponse, req: IncomingMessage) => unknown> = {
    '/hold': (res, req) => held.push({ req, res }),
    '/cookies': (res) =>
      raw(
        res,
        'HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\nset-cookie: b=2\r\nX-Latin: \xe9\r\nVary: a\r\nVary: b\r\nStrict-Transport-Security: max-age=0\r\nX-Content-Type-Options: sniff\r\nX-Frame-Options: ALLOW\r\nX-XSS-Protection: 0\r\nX-Request-ID: theirs\r\nCache-Control: public\r\n\r\n',
      ),
    '/connection': (res) =>
      raw(
        res,
        'HTTP/1.1 200 OK\r\nConnection: close, X-Internal\r\nX-Internal: secret\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nTrailer: X-T\r\nUpgrade: h2c\r\nX-Revoke-Session: nobody\r\nServer: x\r\nTransfer-Encoding: chunked\r\n\r\n2;e=f\r\nhi\r\n0\r\nX-T: trailer\r\nX-Frame-Options: ALLOW\r\n\r\n',
      ),
    '/hints': (res) =>
      raw(
        res,
        'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Secret: x\r\n\r\nHTTP/1.1 102 Processing\r\nX-Secret: x\r\n\r\nHTTP/1.1 104 Upload Resumption Supported\r\nLocation: /uploads/1\r\nUpload-Offset: 5\r\nSet-Cookie: a=b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi',
      ),
    '/bad-hints': (res) =>
      raw(
        res,
        'HTTP/1.1 103 Early Hints\r\nLink: broken\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi',
      ),
    '/cut/head': (res) => raw(res, 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n'),
    '/cut/length': (res) => raw(res, 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello'),
    '/cut/chunked': (res) => raw(res, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n'),
    '/cut/chunk': (res) => raw(res, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello'),
    '/cut/bad-chunk': (res) =>
      raw(res, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n'),
    '/cut/reset': (res) => {
      res.socket?.write('HTTP/1.1 200 OK\r\n\r\nhello', () =>
        setImmediate(() => res.socket?.resetAndDestroy()),
      )
    },
    '/bad/two-lengths': (res) =>
      raw(res, 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 2\r\n\r\nhello'),
    '/bad/both': (res) =>
      raw(
        res,
        'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
      ),
    '/bad/gzip': (res) => raw(res, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'),
    '/bad/101': (res) =>
      raw(res, 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'),
    '/bad/header': (res) => raw(res, 'HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 0\r\n\r\n'),
    '/bad/name': (res) => raw(res, 'HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 0\r\n\r\n'),
    '/bad/status': (res) => raw(res, 'HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n'),
    '/bad/large': (res) =>
      raw(res, `HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(70_000)}\r\nContent-Length: 0\r\n\r\n`),
    '/two-responses': (res) =>
      raw(
        res,
        'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong',
      ),
    '/length-for-204': (res) => raw(res, 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n'),
    '/body-for-204': (res) => raw(res, 'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello'),
    '/chunks-for-204': (res) =>
      raw(res, 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'),
    '/not-modified': (res) =>
      raw(res, 'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 99\r\n\r\n'),
    '/until-close': (res) => raw(res, 'HTTP/1.0 200 OK\r\n\r\nall of it'),
    '/lost': (res) => res.socket?.destroy(),
    '/lost-once': (res) => {
      if (asked.get('/lost-once') === 1) res.socket?.destroy()
      else res.end('second')
    },
    '/sink': (res, req) => {
      let bytes = 0
      req.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
      req.on('end', () => res.end(String(bytes)))
    },
  }

  before(async () => {
    upstream = await startUpstream((req, res) => {
      const path = (req.url ?? '').split('?')[0] as string
      asked.set(path, (asked.get(path) ?? 0) + 1)
      req.on('error', () => {})
      const script = scripts[path]
      if (script !== undefined) return void script(res, req)
      let body = ''
      req.on('data', (chunk: Buffer) => {
        body += chunk.toString('latin1')
      })
      req.on('end', () => {
        const echo = JSON.stringify({ method: req.method, url: req.url, rawHeaders: req.rawHeaders, body })
        res.setHeader('content-length', Buffer.byteLength(echo))
        res.end(echo)
      })
    })
    gateway = await startGateway({
      env: MEASURABLE,
      config: {
        upstream: upstream.url,
        maxBodyBytes: LARGE * 2,
        routes: [
          { path: '/mine', auth: ['bearer'] },
          { path: '/small', auth: ['none'], maxBodyBytes: 10 },
          { path: '/*', auth: ['none'] },
        ],
      },
    })
    await sendBytes(gateway.port, `GET /first HTTP/1.1\r\n${CLOSE}`)
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  const ask = (lines: string, path = '/a') =>
    sendBytes(gateway.port, `GET ${path} HTTP/1.1\r\n${lines}${CLOSE}`)
  const statusCodeOf = async (requestId: string) => (await gateway.pair(requestId))[1].statusCode
  /** The next request to /hold. */
  async function nextHeld(): Promise<Held> {
    return until(() => held.shift())
  }

  describe('sends upstream', () => {
    it('method, path, query, body and end-to-end headers unchanged, and repeated headers apart', async () => {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'OPTIONS', 'PROPFIND']) {
        for (const body of [
          'Content-Length: 5\r\n\r\nhello',
          'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
        ]) {
          const echo = echoOf(
            await sendBytes(
              gateway.port,
              `${method} /a/b?c=d&c=%20e HTTP/1.1\r\n${HOST}Connection: close\r\nCookie: a=1\r\nX-Many: 1\r\nX-Many: 2\r\nX-Latin: \xe9\r\nAccept:\r\n${body}`,
            ),
          )
          assert.equal(echo.method, method)
          assert.equal(echo.url, '/a/b?c=d&c=%20e')
          assert.equal(echo.body, 'hello')
          assert.deepEqual(values(echo, 'x-many'), ['1', '2'])
          assert.deepEqual(values(echo, 'cookie'), ['a=1'])
          assert.deepEqual(values(echo, 'accept'), [''])
          assert.deepEqual(values(echo, 'x-latin'), ['\xe9'])
          assert.deepEqual(values(echo, 'host'), ['gateway'])
        }
      }
    })

    it('no header of the connection, named by Connection or not', async () => {
      const echo = echoOf(
        await ask(
          'Connection: X-Hop, x-other\r\nConnection: Authorization\r\nX-Hop: 1\r\nX-OTHER: 1\r\nAuthorization: Bearer x\r\nKeep-Alive: 1\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nProxy-Authenticate: Basic\r\nTE: trailers\r\nTrailer: X-T\r\nUpgrade: foo\r\nHTTP2-Settings: x\r\n',
        ),
      )
      for (const name of [
        ...['x-hop', 'x-other', 'authorization', 'keep-alive', 'proxy-connection', 'proxy-authorization'],
        ...['proxy-authenticate', 'te', 'trailer', 'upgrade', 'http2-settings', 'transfer-encoding'],
      ]) {
        assert.deepEqual(values(echo, name), [], name)
      }
    })

    it('only its own headers about the caller and its address, even if Connection names them', async () => {
      const token = await upstream.issuer.token({ client_id: 'mobile-app' })
      const spoofed = [
        ...[
          'X-Forwarded-For',
          'x-FORWARDED-proto',
          'X-Forwarded-Host',
          'X-Forwarded-Port',
          'X-Forwarded-User',
        ],
        ...[
          'X-Forwarded-Client-Cert',
          'Forwarded',
          'FORWARDED',
          'X-Auth-Subject',
          'x-auth-subject',
          'X-AUTH-CLIENT',
        ],
        ...[
          'X-Auth-Method',
          'X-Auth-Scope',
          'X-Auth-Session',
          'X-Auth-Anything',
          'Client-Cert',
          'client-cert-chain',
        ],
      ]
      const claims = spoofed.map((name) => `${name}: evil\r\n`).join('')
      const named =
        'Connection: X-Auth-Subject, X-Forwarded-For, X-Request-ID, Via, traceparent, Host, X-Auth-Scope\r\n'
      const echo = echoOf(await ask(`${claims}${named}Authorization: Bearer ${token}\r\n`, '/mine'))
      assert.ok(!JSON.stringify(echo).includes('evil'))
      const own: [string, string | RegExp][] = [
        ['x-forwarded-for', '127.0.0.1'],
        ['x-forwarded-proto', 'http'],
        ['x-forwarded-host', 'gateway'],
        ['host', 'gateway'],
        ['cdn-loop', /^countersign; id=[0-9a-f]{16}$/],
        ['x-auth-subject', 'user-1'],
        ['x-auth-client', 'mobile-app'],
        ['x-auth-session', 'session-1'],
        ['x-auth-method', 'bearer'],
        ['x-auth-scope', 'accounts:read'],
        ['x-request-id', /^[0-9a-f-]{36}$/],
        ['traceparent', /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/],
      ]
      for (const [name, value] of own) {
        assert.equal(values(echo, name).length, 1, name)
        if (typeof value === 'string') assert.equal(values(echo, name)[0], value, name)
        else assert.match(values(echo, name)[0] as string, value)
      }
    })

    it('no header about the caller of a public route', async () => {
      const echo = echoOf(await ask('X-Auth-Subject: root\r\n'))
      assert.ok(!echo.rawHeaders.some((text) => /^x-auth-/i.test(text)))
    })

    it('the request id that the client gets', async () => {
      const response = await ask('X-Request-ID: from-client/1\r\n')
      assert.deepEqual(values(echoOf(response), 'x-request-id'), ['from-client/1'])
      assert.equal(headerOf(response, 'x-request-id'), 'from-client/1')
      const made = await ask('X-Request-ID: a\r\nX-Request-ID: b\r\n')
      assert.deepEqual(values(echoOf(made), 'x-request-id'), [headerOf(made, 'x-request-id')])
    })

    it('a length without the zeros before it', async () => {
      for (const length of ['005', '5', '000000000000005']) {
        const bytes = `POST /a HTTP/1.1\r\ncontent-length: ${length}\r\n${CLOSE}hello`
        const echo = echoOf(await sendBytes(gateway.port, bytes))
        assert.deepEqual([values(echo, 'content-length'), echo.body], [['5'], 'hello'])
      }
    })

    it('a good traceparent with its tracestate, and a new one alone in place of a bad one', async () => {
      const trace = '0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331'
      const state = 'tracestate: a=1\r\ntracestate: b=2\r\n'
      for (const good of [
        `00-${trace}-01`,
        `00-${trace}-00`,
        `cc-${trace}-01`,
        `cc-${trace}-01-what-comes`,
      ]) {
        const echo = echoOf(await ask(`Traceparent: ${good}\r\n${state}`))
        assert.deepEqual(values(echo, 'traceparent'), [good])
        assert.deepEqual(values(echo, 'tracestate'), ['a=1', 'b=2'])
      }
      const bad = [
        ...[
          `ff-${trace}-01`,
          `00-${trace}-01-x`,
          `00-${trace}-1`,
          `00-${trace.toUpperCase()}-01`,
          `00-${trace}`,
          'x',
          '',
        ],
        ...[
          `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
          `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`,
        ],
        ...[`cc-${trace}-01.x`, `00-${trace}-01\r\ntraceparent: 00-${trace}-01`],
      ]
      for (const value of bad) {
        const echo = echoOf(await ask(`traceparent: ${value}\r\n${state}`))
        const [made] = values(echo, 'traceparent')
        assert.equal(values(echo, 'traceparent').length, 1)
        assert.match(made as string, /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-00$/)
        assert.ok(!made?.includes('0af7651916'), value)
        assert.deepEqual(values(echo, 'tracestate'), [], value)
      }
    })
  })

  it('believes the forwarded headers of a trusted proxy, and adds its own hop to them', async () => {
    const behind = await commonGateway({
      config: {
        upstream: upstream.url,
        trustedProxies: ['127.0.0.0/8'],
        routes: [
          { path: '/mine', auth: ['bearer'] },
          { path: '/*', auth: ['none'] },
        ],
      },
    })
    const claims =
      'X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-For: 127.0.0.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: bank.example\r\nForwarded: for=203.0.113.7\r\nX-Forwarded-Port: 443\r\nClient-Cert: :x:\r\nX-Auth-Subject: proxied\r\nX-Real-IP: 192.0.2.1\r\nX-Request-ID: proxied\r\n'
    const bytes = (path: string, lines = '') => `GET ${path} HTTP/1.1\r\n${lines}${claims}${CLOSE}`
    const echo = echoOf(await sendBytes(behind.port, bytes('/a')))
    assert.deepEqual(values(echo, 'x-forwarded-for'), ['203.0.113.7, 127.0.0.9, 127.0.0.1'])
    // Only a trusted proxy can have written this entry of the chain.
    assert.deepEqual(values(echo, 'x-real-ip'), ['203.0.113.7'])
    assert.deepEqual(values(echo, 'x-forwarded-proto'), ['https'])
    assert.deepEqual(values(echo, 'x-forwarded-host'), ['bank.example'])
    assert.deepEqual(values(echo, 'x-forwarded-port'), ['443'])
    assert.deepEqual(values(echo, 'forwarded'), ['for=203.0.113.7'])
    // A trusted proxy is believed about how the request came, not about who calls.
    assert.deepEqual(values(echo, 'client-cert'), [])
    assert.deepEqual(values(echo, 'x-auth-subject'), [])
    assert.equal((await behind.pair('proxied'))[0].ip, '203.0.113.7')
    // The gateway names the caller that it has authenticated.
    const token = await upstream.issuer.token()
    const mine = echoOf(await sendBytes(behind.port, bytes('/mine', `Authorization: Bearer ${token}\r\n`)))
    assert.deepEqual(values(mine, 'x-auth-subject'), ['user-1'])
  })

  describe('gives back', () => {
    it('repeated headers apart, bytes above ASCII unchanged, and its own six headers once', async () => {
      const response = await ask('', '/cookies')
      const lines = headerLines(response)
      assert.deepEqual(
        lines.filter(([name]) => name === 'set-cookie').map(([, value]) => value),
        ['a=1', 'b=2'],
      )
      assert.deepEqual(
        lines.filter(([name]) => name === 'vary').map(([, value]) => value),
        ['a', 'b'],
      )
      assert.equal(headerOf(response, 'x-latin'), '\xe9')
      for (const [name, value] of MANDATORY_HEADERS)
        assert.equal(headerOf(response, name.toLowerCase()), value, name)
      assert.match(String(headerOf(response, 'x-request-id')), /^[\da-f-]{36}$/)
    })

    it('no header of the upstream connection, no trailer, no chunk extension', async () => {
      const response = await ask('', '/connection')
      const names = headerLines(response).map(([name]) => name)
      for (const name of [
        'x-internal',
        'proxy-authenticate',
        'trailer',
        'upgrade',
        'server',
        'x-revoke-session',
        'x-t',
      ]) {
        assert.ok(!names.includes(name), name)
      }
      assert.equal(headerOf(response, 'x-frame-options'), 'DENY')
      assert.ok(response.endsWith('\r\n\r\n2\r\nhi\r\n0\r\n\r\n'))
    })

    it('interim responses to HTTP/1.1 only, with only the headers that belong on them', async () => {
      const response = await ask('', '/hints')
      assert.deepEqual(statuses(response), [103, 102, 104, 200])
      const hints =
        'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n'
      const upload = 'HTTP/1.1 104 \r\nLocation: /uploads/1\r\nUpload-Offset: 5\r\n\r\n'
      assert.equal(response.slice(0, (hints + upload).length), hints + upload)
      assert.deepEqual(statuses(await sendBytes(gateway.port, `GET /hints HTTP/1.0\r\n${HOST}\r\n`)), [200])
      assert.deepEqual(statuses(await ask('', '/bad-hints')), [200])
    })

    it('no body to HEAD and with 204 and 304, and keeps the connection', async () => {
      const wire = await openWire(gateway.port)
      const requests: [string, number, string | undefined][] = [
        ['HEAD /a', 200, undefined],
        ['GET /length-for-204', 204, undefined],
        ['GET /body-for-204', 204, undefined],
        ['HEAD /chunks-for-204', 204, undefined],
        ['GET /not-modified', 304, '99'],
        ['HEAD /cookies', 200, '0'],
      ]
      let from = 0
      for (const [line, status, length] of requests) {
        wire.send(`${line} HTTP/1.1\r\n${HOST}\r\n`)
        await until(() => (wire.received.indexOf('\r\n\r\n', from) > 0 ? true : undefined))
        const response = wire.received.slice(from)
        from = wire.received.length
        assert.equal(statusOf(response), status)
        assert.ok(response.endsWith('\r\n\r\n'))
        if (length !== undefined || status === 204) assert.equal(headerOf(response, 'content-length'), length)
        assert.equal(headerOf(response, 'transfer-encoding'), undefined)
      }
      wire.send(`GET /small HTTP/1.1\r\n${HOST}\r\n`)
      await wire.has('"/small"')
      wire.socket.destroy()
    })

    it('a response that ends with the upstream connection, in chunks', async () => {
      assert.ok((await ask('', '/until-close')).endsWith('9\r\nall of it\r\n0\r\n\r\n'))
    })

    it('one response only, whatever else the upstream sends', async () => {
      assert.deepEqual(statuses(await ask('', '/two-responses')), [200])
      assert.ok(!(await ask('', '/a')).includes('wrong'))
    })

    it('the head of a stream at once, and each piece when it comes', async () => {
      const wire = await openWire(gateway.port)
      wire.send(`GET /hold HTTP/1.1\r\n${HOST}\r\n`)
      const { res } = await nextHeld()
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      await wire.has('\r\n\r\n')
      for (const piece of ['data: one\n\n', 'data: two\n\n']) {
        res.write(piece)
        await wire.has(piece)
      }
      res.end()
      await wire.has('0\r\n\r\n')
      wire.socket.destroy()
    })

    it('a broken response, never a whole one, when the upstream breaks off', async () => {
      for (const path of ['length', 'chunked', 'chunk', 'bad-chunk', 'reset']) {
        for (const version of ['1.1', '1.0']) {
          const wire = await openWire(gateway.port)
          const id = `cut-${path}-${version}`
          wire.send(`GET /cut/${path} HTTP/${version}\r\n${HOST}X-Request-ID: ${id}\r\n\r\n`)
          const response = await wire.ended()
          assert.equal(wire.over, 'ECONNRESET', `${id}: ${response}`)
          assert.ok(!response.includes('\r\n0\r\n\r\n'))
          assert.equal(await statusCodeOf(id), 502)
        }
      }
    })

    it('502 when the upstream breaks off in the head', async () => {
      const response = await ask('X-Request-ID: cut-head\r\n', '/cut/head')
      assert.deepEqual(statuses(response), [502])
      assert.match(response, /"code":"upstream_broken"/)
      assert.equal(await statusCodeOf('cut-head'), 502)
    })

    it('502 for a bad response, and no part of it', async () => {
      for (const path of ['two-lengths', 'both', 'gzip', '101', 'header', 'name', 'status', 'large']) {
        const response = await ask('', `/bad/${path}`)
        assert.deepEqual(statuses(response), [502], path)
        assert.match(response, /"code":"upstream_malformed"/, path)
        assert.ok(!response.includes('hello'), path)
      }
    })
  })

  it('sends a lost request again only if it is safe', async () => {
    assert.ok((await ask('', '/lost-once')).endsWith('second'))
    assert.equal(asked.get('/lost-once'), 2)
    for (const [method, times] of [
      ['GET', 2],
      ['POST', 1],
      ['PUT', 1],
      ['DELETE', 1],
    ] as const) {
      asked.delete('/lost')
      const response = await sendBytes(
        gateway.port,
        `${method} /lost HTTP/1.1\r\nContent-Length: 0\r\n${CLOSE}`,
      )
      assert.match(response, /"code":"upstream_broken"/)
      assert.equal(asked.get('/lost'), times, method)
    }
  })

  describe('streams', () => {
    it('100 MB up: the client must wait while the upstream does not read, and all bytes arrive', async () => {
      for (const headers of [{ 'content-length': LARGE }, { 'transfer-encoding': 'chunked' }]) {
        const before = await heldBytes(gateway)
        const req = request(`${gateway.url}/hold`, { method: 'POST', headers })
        const progress = pour(req, LARGE)
        const { req: arrived, res } = await nextHeld()
        const taken = await standing(() => progress.written - req.writableLength)
        assert.ok(taken < HELD_AT_MOST, `${taken} bytes were taken from the client`)
        assert.ok((await heldBytes(gateway)) - before < 60_000_000)
        let bytes = 0
        arrived.on('data', (chunk: Buffer) => {
          bytes += chunk.length
        })
        arrived.on('end', () => res.end(String(bytes)))
        const [response] = (await once(req, 'response')) as [IncomingMessage]
        response.resume()
        assert.equal(bytes, LARGE)
      }
    })

    it('100 MB down: the upstream must wait while the client does not read, and all bytes arrive', async () => {
      for (const headers of [{ 'content-length': LARGE }, {}]) {
        const before = await heldBytes(gateway)
        const req = request(`${gateway.url}/hold`).end()
        const { res } = await nextHeld()
        res.writeHead(200, headers)
        const progress = pour(res, LARGE)
        const [response] = (await once(req, 'response')) as [IncomingMessage]
        const sent = await standing(() => progress.written - res.writableLength)
        assert.ok(sent < HELD_AT_MOST, `${sent} bytes were taken from the upstream`)
        assert.ok((await heldBytes(gateway)) - before < 60_000_000)
        let bytes = 0
        for await (const chunk of response) bytes += (chunk as Buffer).length
        assert.equal(bytes, LARGE)
      }
    })

    it('both ways at once: a response may begin before the request is whole', async () => {
      const wire = await openWire(gateway.port)
      wire.send(`POST /hold HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n4\r\nping\r\n`)
      const { req, res } = await nextHeld()
      res.flushHeaders()
      await wire.has('\r\n\r\n')
      assert.equal(headerOf(wire.received, 'connection'), 'close')
      req.on('data', (chunk: Buffer) => res.write(chunk.toString().toUpperCase()))
      req.on('end', () => res.end())
      await wire.has('PING')
      wire.send('4\r\npong\r\n0\r\n\r\n')
      assert.ok((await wire.ended()).endsWith('PONG\r\n0\r\n\r\n'))
    })

    it('a chunked body until it is too large: then the client gets 413', async () => {
      const wire = await openWire(gateway.port, { paused: true })
      wire.send(
        `POST /small HTTP/1.1\r\n${HOST}X-Request-ID: too-large\r\nTransfer-Encoding: chunked\r\n\r\n`,
      )
      await sendChunks(wire, 5_000_000)
      wire.read()
      const response = await wire.ended()
      assert.deepEqual(statuses(response), [413])
      assert.equal(headerOf(response, 'connection'), 'close')
      assert.equal(await statusCodeOf('too-large'), 413)
      const whole = await call(`${gateway.url}/small`, {
        method: 'POST',
        headers: { 'transfer-encoding': 'chunked' },
        body: '0123456789',
      })
      assert.equal(whole.status, 200)
    })

    it('a response until the upload is malformed: then it breaks the response off', async () => {
      const wire = await openWire(gateway.port)
      wire.send(
        `POST /hold HTTP/1.1\r\n${HOST}X-Request-ID: broken-upload\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nping\r\n`,
      )
      const { res } = await nextHeld()
      res.write('begun')
      await wire.has('begun')
      wire.send('zz\r\n')
      assert.ok(!(await wire.ended()).includes('0\r\n\r\n'))
      assert.equal(wire.over, 'ECONNRESET')
      assert.equal(await statusCodeOf('broken-upload'), 400)
      await until(() => (res.destroyed ? true : undefined))
    })
  })

  async function sendChunks(wire: Wire, bytes: number): Promise<void> {
    for (let sent = 0; sent < bytes; sent += 50_000) {
      wire.send('c350\r\n')
      if (!wire.socket.write(Buffer.alloc(50_000, 97))) await once(wire.socket, 'drain')
      wire.send('\r\n')
    }
    wire.send('0\r\n\r\n')
  }
})
