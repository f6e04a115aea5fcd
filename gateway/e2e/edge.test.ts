import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import * as fc from 'fast-check'
import { MANDATORY_HEADERS } from '../edge/rules/policy/response-policy.ts'
import { call, sendBytes, statusOf } from './client.ts'
import { heldBytes, MEASURABLE } from './held-memory.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { headerOf, openWire, statuses } from './wire.ts'

const HOST = 'Host: gateway\r\n'
const CLOSE = `${HOST}Connection: close\r\n\r\n`
const LONG_BODY = 5_000_000
const PIECE = Buffer.alloc(60_000, 97)

/** A request as the upstream saw it. */
interface Seen {
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: readonly string[]
  readonly res: ServerResponse
  body: string
  /** The whole body has come. */
  whole: boolean
  /** The gateway has given the request up. */
  aborted: boolean
}

describe('the edge', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const seen: Seen[] = []

  before(async () => {
    upstream = await startUpstream((req, res) => {
      const entry: Seen = {
        url: req.url ?? '',
        headers: req.headers,
        rawHeaders: req.rawHeaders,
        res,
        body: '',
        whole: false,
        aborted: false,
      }
      seen.push(entry)
      res.on('close', () => {
        entry.aborted = !res.writableFinished
      })
      req.on('data', (chunk: Buffer) => {
        entry.body += chunk.toString('latin1')
      })
      req.on('end', () => {
        entry.whole = true
        if (!/^\/(held|endless|early|piece)/.test(entry.url)) res.end(entry.url)
      })
      req.on('error', () => {})
      if (entry.url.startsWith('/piece')) res.end(PIECE)
      if (entry.url.startsWith('/early')) res.writeHead(403).end('early')
      if (entry.url.startsWith('/endless')) pour(res)
    })
    gateway = await startGateway({
      env: MEASURABLE,
      config: {
        upstream: upstream.url,
        maxBodyBytes: 10_000_000,
        timeouts: { requestHeadersMs: 2000, requestMs: 20_000, headersMs: 20_000 },
        routes: [
          { path: '/private', auth: ['bearer'] },
          { path: '/private/*', auth: ['bearer'] },
          { path: '/admin/*', auth: ['bearer'] },
          { path: '/v1/accounts:close', auth: ['bearer'] },
          { path: '/a%5Bb', auth: ['bearer'] },
          { path: '/endless', auth: ['none'], timeoutMs: 1500 },
          { path: '/held', auth: ['none'] },
          { path: '/*', auth: ['none'] },
        ],
      },
    })
    // The first request of a process takes longer.
    await sendBytes(gateway.port, `GET /first HTTP/1.1\r\n${CLOSE}`)
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  /** Sends a response without end, as fast as it is taken. */
  function pour(res: ServerResponse): void {
    const chunk = Buffer.alloc(65_536, 97)
    const write = () => {
      while (!res.destroyed && res.write(chunk));
    }
    res.on('drain', write)
    write()
  }

  const get = (target: string) => sendBytes(gateway.port, `GET ${target} HTTP/1.1\r\n${CLOSE}`)
  /** The next request at the path, as the upstream saw it, after `from` others. */
  const arrival = (path: string, from = 0) =>
    until(() => seen.slice(from).find((entry) => entry.url.startsWith(path)))
  const statusCodeOf = async (requestId: string) => (await gateway.pair(requestId))[1].statusCode

  /** Asserts the refusal, and that nothing reached the upstream. */
  async function assertRefused(bytes: string, status: number, code?: string): Promise<void> {
    const before = seen.length
    const response = await sendBytes(gateway.port, bytes)
    assert.equal(
      statusOf(response),
      status,
      `${JSON.stringify(bytes.slice(0, 120))}: ${response.slice(0, 300)}`,
    )
    if (code !== undefined) assert.match(response, new RegExp(`"code":"${code}"`))
    assert.equal(seen.length, before, `${JSON.stringify(bytes.slice(0, 120))} reached the upstream`)
  }

  describe('forwards the same path that it matches', () => {
    const forwarded: [string, string][] = [
      ['/a/b', '/a/b'],
      ['/a//b///c', '/a/b/c'],
      ['/a/./b/../c', '/a/c'],
      ['/../../a', '/a'],
      ['/a/..', '/'],
      ['/a/.', '/a/'],
      ['/%61/%7Eb/%2e%2E/c', '/a/c'],
      ['/%E2%82%ac', '/%E2%82%AC'],
      ['/a%20b%3Fc', '/a%20b%3Fc'],
      ['/a?b=/../c//d%2f;e', '/a?b=/../c//d%2f;e'],
      ['/a?', '/a?'],
      ['/a%3Ab%40c%21%2b', '/a:b@c!+'],
      ['/a{b}[c]|"', '/a%7Bb%7D%5Bc%5D%7C%22'],
      ['http://gateway/x/../y?z', '/y?z'],
      ['http://gateway', '/'],
      ['http://gateway?q', '/?q'],
    ]
    for (const [target, path] of forwarded) {
      it(`${target} as ${path}`, async () => {
        const from = seen.length
        assert.equal(statusOf(await get(target)), 200)
        assert.equal(seen[from]?.url, path)
      })
    }

    const bypasses: [string, number][] = [
      ['/private', 401],
      ['/private?a', 401],
      ['/private/', 401],
      ['//private', 401],
      ['/./private', 401],
      ['/x/../private', 401],
      ['/x/%2e%2e/private', 401],
      ['/x/.%2E/private', 401],
      ['/%70riv%61te', 401],
      ['/private/.', 401],
      ['/private/..;/private', 400],
      ['http://gateway/private', 401],
      ['http://gateway//private', 401],
      ['/v1/accounts:close', 401],
      ['/v1/accounts%3Aclose', 401],
      ['/v1/accounts%3aclose', 401],
      ['/v1/accounts%3Aclose/', 404],
      ['/v1/ACCOUNTS%3Aclose', 404],
      ['/a[b', 401],
      ['/a%5bb', 401],
      ['/PRIVATE', 404],
      ['/Private/', 404],
      ['/%50RIVATE', 404],
      ['/PRIVATE/deep', 404],
      ['/admin/', 401],
      ['/admin', 404],
      ['/Admin', 404],
      ['/admin%2fx', 400],
      ['/x%2f..%2fprivate', 400],
      ['/private%00', 400],
      ['/private%0a', 400],
      ['/private;x', 400],
      ['/private;', 400],
      ['/private%3bx', 400],
      ['/\\private', 400],
      ['/x\\..\\private', 400],
      ['/%5cprivate', 400],
      ['/%c0%ae%c0%ae/private', 400],
      ['/%c0%afprivate', 400],
      ['/\xe9', 400],
      ['/a?\xe9', 400],
      ['/a?\xff=1', 400],
      ['/private\x7f', 400],
      ['/private#x', 400],
      ['/a%', 400],
      ['/a%4', 400],
      ['/a%zz', 400],
      ['private', 400],
      ['*', 400],
      ['ftp://gateway/private', 400],
      ['http:///private', 400],
      ['http://user@gateway/private', 400],
      ['http://gateway:99999/private', 400],
    ]
    for (const [target, status] of bypasses) {
      it(`and refuses ${JSON.stringify(target)} with ${status}, unseen by the upstream`, () =>
        assertRefused(`GET ${target} HTTP/1.1\r\n${CLOSE}`, status))
    }

    it('and refuses an unreadable HEAD by a response without a body, wherever it ends', async () => {
      for (const bytes of [
        'HEAD /a HTTP/9.9\r\n\r\n',
        'HEAD \r\n\r\n',
        `HEAD /a b HTTP/1.1\r\n${CLOSE}`,
        'HEAD /a HTTP/1.1\r\nbad line\r\n\r\n',
        `HEAD ${'/a'.repeat(20_000)}`,
        'HEAD /half',
        'HEAD /a HTTP/1.1\r\nHost: gate',
      ]) {
        const response = await sendBytes(gateway.port, bytes)
        assert.match(response, /^HTTP\/1\.1 4\d\d /, bytes.slice(0, 40))
        assert.ok(response.endsWith('\r\n\r\n'), `${bytes.slice(0, 40)}: ${response}`)
      }
    })

    it('with the authority of an absolute target in place of Host', async () => {
      const from = seen.length
      await sendBytes(
        gateway.port,
        'GET http://one.example:81/a HTTP/1.1\r\nHost: two.example\r\nConnection: close\r\n\r\n',
      )
      assert.equal(seen[from]?.headers.host, 'one.example:81')
      assert.equal(seen[from]?.headers['x-forwarded-host'], 'one.example:81')
    })
  })

  describe('refuses with 400', () => {
    const TWICE = [
      'Authorization',
      'Content-Type',
      'Content-Location',
      'Content-Range',
      'Date',
      'Expect',
      'From',
      'Idempotency-Key',
      'If-Modified-Since',
      'If-Range',
      'If-Unmodified-Since',
      'Max-Forwards',
      'Origin',
      'Proxy-Authorization',
      'Range',
      'Referer',
      'User-Agent',
    ]
    for (const name of TWICE) {
      it(`a repeated ${name}`, () =>
        assertRefused(
          `GET /a HTTP/1.1\r\n${name}: x\r\n${name.toUpperCase()}: x\r\n${CLOSE}`,
          400,
          'invalid_header',
        ))
    }

    const heads: [string, string, string?][] = [
      ['no Host', 'GET /a HTTP/1.1\r\nConnection: close\r\n\r\n', 'invalid_host'],
      ['no Host in HTTP/1.0', 'GET /a HTTP/1.0\r\n\r\n', 'invalid_host'],
      ['two Hosts', `GET /a HTTP/1.1\r\n${HOST}${CLOSE}`, 'invalid_host'],
      ...[
        '',
        'a b',
        'a/b',
        'a,b',
        'u@h',
        'h:x',
        'h:65536',
        '[::1',
        '[:::]',
        '[1.2.3.4]',
        'a\\b',
        'h?q',
        'h#f',
      ].map((host): [string, string, string] => [
        `Host ${JSON.stringify(host)}`,
        `GET /a HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
        'invalid_host',
      ]),
      ['a name with an underscore', `GET /a HTTP/1.1\r\nX_Auth_Subject: root\r\n${CLOSE}`, 'invalid_header'],
      [
        'a name with a hidden underscore',
        `GET /a HTTP/1.1\r\nX-Auth_Subject: root\r\n${CLOSE}`,
        'invalid_header',
      ],
      ['an empty name', `GET /a HTTP/1.1\r\n: x\r\n${CLOSE}`],
      ['a space before the colon', `GET /a HTTP/1.1\r\nX-A : x\r\n${CLOSE}`],
      ['a folded header', `GET /a HTTP/1.1\r\nX-A: x\r\n y\r\n${CLOSE}`],
      ['a first header that is folded', `GET /a HTTP/1.1\r\n X-A: x\r\n${CLOSE}`],
      ['a NUL in a value', `GET /a HTTP/1.1\r\nX-A: x\0y\r\n${CLOSE}`],
      ['a bare CR in a value', `GET /a HTTP/1.1\r\nX-A: x\ry\r\n${CLOSE}`],
      ['a bare LF at the end of a line', `GET /a HTTP/1.1\r\nX-A: x\n${CLOSE}`],
      ['a bare LF after the start line', `GET /a HTTP/1.1\n${CLOSE}`],
      ['a bare CR after the start line', `GET /a HTTP/1.1\r${CLOSE}`],
      ['a character that no name has', `GET /a HTTP/1.1\r\nX(A): x\r\n${CLOSE}`],
      ['a name outside ASCII', `GET /a HTTP/1.1\r\nX-\xe9: x\r\n${CLOSE}`],
      ['a tab before the version', `GET /a\tHTTP/1.1\r\n${CLOSE}`],
      ['a space in the target', `GET /a b HTTP/1.1\r\n${CLOSE}`],
      ['a method that is no token', `G(T /a HTTP/1.1\r\n${CLOSE}`],
      ['a line without a method', ` /a HTTP/1.1\r\n${CLOSE}`],
      ['no version', `GET /a\r\n${CLOSE}`],
      ['HTTP/0.9', `GET /a HTTP/0.9\r\n${CLOSE}`],
      ['HTTP/2.0', `GET /a HTTP/2.0\r\n${CLOSE}`],
      ['a preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
      ['another protocol', `GET /a SIP/2.0\r\n${CLOSE}`],
      ['a version without a number', `GET /a HTTP/1.\r\n${CLOSE}`],
      ['a small http', `GET /a http/1.1\r\n${CLOSE}`],
    ]
    for (const [what, bytes, code] of heads) it(what, () => assertRefused(bytes, 400, code))

    const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: gateway\r\n\r\n'
    const chunked = `0\r\n\r\n${SMUGGLED}`
    const framings: [string, string[], string][] = [
      ['Content-Length with Transfer-Encoding', ['Content-Length: 4', 'Transfer-Encoding: chunked'], chunked],
      ['Transfer-Encoding with Content-Length', ['Transfer-Encoding: chunked', 'Content-Length: 5'], chunked],
      ['two Content-Lengths', ['Content-Length: 0', `Content-Length: ${SMUGGLED.length}`], SMUGGLED],
      ['two equal Content-Lengths', ['Content-Length: 0', 'Content-Length: 0'], SMUGGLED],
      ...[
        '+5',
        '-5',
        '5 5',
        '5, 5',
        '0x5',
        '5,',
        '',
        '1e1',
        '5.0',
        '5;',
        '99999999999999999999',
        '9999999999999999',
        '\x0b5',
      ].map((length): [string, string[], string] => [
        `Content-Length ${JSON.stringify(length)}`,
        [`Content-Length: ${length}`],
        `hello${SMUGGLED}`,
      ]),
      ...[
        'gzip, chunked',
        'chunked, chunked',
        'chunked, identity',
        'identity',
        'gzip',
        'xchunked',
        'chunked, gzip',
        '',
        'chunked;q=1',
        '"chunked"',
        ',chunked',
        'chunked,',
        '\x0bchunked',
        'chunked\x0c',
        'chunked identity',
        'identity, chunked',
      ].map((coding): [string, string[], string] => [
        `Transfer-Encoding ${JSON.stringify(coding)}`,
        [`Transfer-Encoding: ${coding}`],
        chunked,
      ]),
      ['two Transfer-Encodings', ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], chunked],
      ['two different Transfer-Encodings', ['Transfer-Encoding: chunked', 'Transfer-encoding: x'], chunked],
      ['a folded Transfer-Encoding', ['Transfer-Encoding:\r\n chunked'], chunked],
      ['a space before the colon of Transfer-Encoding', ['Transfer-Encoding : chunked'], chunked],
      [
        'an empty Transfer-Encoding with a length',
        ['Transfer-Encoding:', 'Content-Length: 5'],
        `hello${SMUGGLED}`,
      ],
      [
        'both, named by Connection',
        ['Connection: content-length', 'Content-Length: 4', 'Transfer-Encoding: chunked'],
        chunked,
      ],
      ['Content_Length', ['Content_Length: 5'], `hello${SMUGGLED}`],
      ['Transfer_Encoding', ['Transfer_Encoding: chunked'], chunked],
    ]
    for (const [what, lines, body] of framings) {
      for (const method of ['POST', 'GET']) {
        it(`${what} of a ${method}, and closes the connection before a smuggled request`, async () => {
          const before = seen.length
          const response = await sendBytes(
            gateway.port,
            `${method} /a HTTP/1.1\r\n${HOST}${lines.join('\r\n')}\r\n\r\n${body}`,
          )
          assert.deepEqual(statuses(response), [400])
          assert.equal(headerOf(response, 'connection'), 'close')
          assert.ok(!seen.slice(before).some((entry) => entry.url === '/smuggled'))
        })
      }
    }

    it('any Transfer-Encoding of HTTP/1.0', () =>
      assertRefused(
        `POST /a HTTP/1.0\r\n${HOST}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`,
        400,
        'invalid_framing',
      ))

    const chunks: [string, string][] = [
      ['a size that is none', 'zz\r\n'],
      ['a size with a prefix', '0x5\r\nhello\r\n0\r\n\r\n'],
      ['a size with a sign', '+5\r\nhello\r\n0\r\n\r\n'],
      ['a negative size', '-1\r\n'],
      ['a size that overflows', '10000000000000005\r\nhello\r\n0\r\n\r\n'],
      ['a size with a space before it', ' 5\r\nhello\r\n0\r\n\r\n'],
      ['a size with an underscore', '0_5\r\nhello\r\n0\r\n\r\n'],
      ['a bare LF after the size', '5\nhello\r\n0\r\n\r\n'],
      ['a bare CR after the size', '5\rhello\r\n0\r\n\r\n'],
      ['a bare LF in an extension', '5;a\nhello\r\n0\r\n\r\n'],
      ['a bare CR in an extension', '5;a\r\rhello\r\n0\r\n\r\n'],
      ['more data than the size', '5\r\nhellohello\r\n0\r\n\r\n'],
      ['less data than the size', '6\r\nhello\r\n0\r\n\r\n'],
      ['no line end after the data', '5\r\nhello0\r\n\r\n'],
      ['a bare LF after the data', '5\r\nhello\n0\r\n\r\n'],
      ['a trailer that is none', `0\r\nGET /smuggled HTTP/1.1\r\n${HOST}\r\n`],
      ['a bare LF in the trailers', '0\r\nX: y\n\r\n'],
    ]
    for (const [what, body] of chunks) {
      it(`a chunked body with ${what}, and the upstream never sees its end`, async () => {
        const before = seen.length
        const response = await sendBytes(
          gateway.port,
          `POST /a HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n${body}`,
        )
        assert.deepEqual(statuses(response), [400])
        assert.ok(!seen.slice(before).some((entry) => entry.whole))
      })
    }
  })

  it('takes a good chunked body without its extensions and trailers, and then the next request', async () => {
    const from = seen.length
    const response = await sendBytes(
      gateway.port,
      `POST /one HTTP/1.1\r\n${HOST}Transfer-Encoding: Chunked\r\nTrailer: Authorization\r\n\r\n5;a=b\r\nhello\r\n0A\r\n0123456789\r\n0\r\nAuthorization: Bearer evil\r\nX-Auth-Subject: root\r\n\r\nGET /two HTTP/1.1\r\n${CLOSE}`,
    )
    assert.deepEqual(statuses(response), [200, 200])
    const [one, two] = seen.slice(from)
    assert.equal(one?.body, 'hello0123456789')
    assert.equal(one?.headers.trailer, undefined)
    for (const entry of [one, two]) {
      assert.equal(entry?.headers.authorization, undefined)
      assert.equal(entry?.headers['x-auth-subject'], undefined)
    }
  })

  it('refuses trailers beyond 16 KiB', () =>
    assertRefusedBody(`0\r\n${`X-Trailer: ${'a'.repeat(1000)}\r\n`.repeat(18)}\r\n`, 431))

  it('refuses chunk extensions beyond 16 KiB', () =>
    assertRefusedBody(`1;${'a'.repeat(17_000)}\r\na\r\n0\r\n\r\n`, 413))

  async function assertRefusedBody(body: string, status: number): Promise<void> {
    const response = await sendBytes(
      gateway.port,
      `POST /a HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n${body}`,
    )
    assert.deepEqual(statuses(response), [status])
  }

  it('takes at most 100 headers, and at most 16 KiB', async () => {
    const lines = (count: number, size = 1) =>
      Array.from({ length: count }, (_, i) => `x-${i}: ${'v'.repeat(size)}\r\n`).join('')
    assert.equal(statusOf(await sendBytes(gateway.port, `GET /a HTTP/1.1\r\n${lines(98)}${CLOSE}`)), 200)
    await assertRefused(`GET /a HTTP/1.1\r\n${lines(99)}${CLOSE}`, 431, 'headers_too_large')
    await assertRefused(`GET /a HTTP/1.1\r\n${lines(1023)}${CLOSE}`, 431, 'headers_too_large')
    assert.equal(
      statusOf(await sendBytes(gateway.port, `GET /a HTTP/1.1\r\n${lines(15, 1000)}${CLOSE}`)),
      200,
    )
    await assertRefused(`GET /a HTTP/1.1\r\n${lines(17, 1000)}${CLOSE}`, 431, 'headers_too_large')
  })

  it('refuses a method that is not registered with 501, and records the method', async () => {
    for (const method of ['get', 'STEAL', 'M!', 'X'.repeat(64), 'X'.repeat(4000)]) {
      const bytes = `${method} /a HTTP/1.1\r\nX-Request-ID: method-${method.length}-${method[0]}\r\n${CLOSE}`
      await assertRefused(bytes, 501, 'method_unknown')
      const [request] = await gateway.pair(`method-${method.length}-${method[0]}`)
      assert.equal(request.method, method.slice(0, 64))
    }
    await assertRefused(`PROPFIND /private HTTP/1.1\r\n${CLOSE}`, 401)
    await assertRefused(`VERSION-CONTROL /private HTTP/1.1\r\n${CLOSE}`, 401)
    const { body: metrics } = await call(`${gateway.adminUrl}/metrics`)
    assert.match(metrics, /gateway_http_requests_total\{[^}]*method="OTHER",status="501"\} /)
    assert.doesNotMatch(metrics, /STEAL/)
  })

  it('counts Max-Forwards of OPTIONS down, and responds itself when it is 0', async () => {
    const wire = await openWire(gateway.port)
    for (const [method, sent] of [
      ['OPTIONS', '4'],
      ['GET', '5'],
      ['OPTIONS', '4'],
    ] as const) {
      const from = seen.length
      wire.send(`${method} /hops HTTP/1.1\r\n${HOST}Max-Forwards: 5\r\n\r\n`)
      assert.equal((await arrival('/hops', from)).headers['max-forwards'], sent)
    }
    wire.socket.destroy()
    const last = `Max-Forwards: 0\r\nX-Request-ID: last-hop\r\n${CLOSE}`
    const from = seen.length
    const response = await sendBytes(gateway.port, `OPTIONS /private HTTP/1.1\r\n${last}`)
    assert.equal(statusOf(response), 204)
    assert.equal(headerOf(response, 'allow'), 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS')
    assert.equal(await statusCodeOf('last-hop'), 204)
    assert.equal(seen.length, from)
    const got = await sendBytes(gateway.port, `GET /hops HTTP/1.1\r\nMax-Forwards: 0\r\n${CLOSE}`)
    assert.equal(statusOf(got), 200)
  })

  it('reads a higher minor version of HTTP as 1.1, and a Host with an empty port', async () => {
    const wire = await openWire(gateway.port)
    for (const line of ['GET /higher HTTP/1.2', 'GET /higher HTTP/1.9']) {
      const from = seen.length
      wire.send(`${line}\r\nHost: gateway:\r\n\r\n`)
      assert.equal((await arrival('/higher', from)).headers.host, 'gateway:')
    }
    await until(() => wire.received.match(/\/higher/g)?.length === 2)
    assert.doesNotMatch(wire.received, /connection: close/i)
    wire.socket.destroy()
  })

  it('refuses TRACE and CONNECT with 405, and names the methods that it takes', async () => {
    const from = seen.length
    for (const line of ['TRACE /a', 'TRACE /nowhere', 'CONNECT gateway:443', 'CONNECT /a']) {
      const response = await sendBytes(gateway.port, `${line} HTTP/1.1\r\n${CLOSE}`)
      assert.equal(statusOf(response), 405, line)
      assert.equal(headerOf(response, 'allow'), 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS')
    }
    const withBody = await sendBytes(
      gateway.port,
      `CONNECT gateway:443 HTTP/1.1\r\n${HOST}Content-Length: 10\r\n\r\nhel`,
    )
    assert.equal(statusOf(withBody), 405)
    assert.equal(seen.length, from)
  })

  describe('responds to Expect: 100-continue', () => {
    const upload = (path: string, version = '1.1') =>
      `POST ${path} HTTP/${version}\r\n${HOST}Expect: 100-Continue\r\nContent-Length: 5\r\n\r\n`

    it('with 100 when all stages have let the request through', async () => {
      const from = seen.length
      const wire = await openWire(gateway.port)
      wire.send(upload('/expected'))
      assert.deepEqual(statuses(await wire.has('100 Continue')), [100])
      wire.send('hello')
      await wire.has('/expected')
      assert.deepEqual(statuses(wire.received), [100, 200])
      assert.equal(seen[from]?.body, 'hello')
      assert.equal(seen[from]?.headers.expect, undefined)
      wire.socket.destroy()
    })

    it('with the refusal alone when a stage refuses', async () => {
      for (const [path, status] of [
        ['/private', 401],
        ['/PRIVATE', 404],
        ['/a;b', 400],
      ] as const) {
        const response = await sendBytes(gateway.port, upload(path))
        assert.deepEqual(statuses(response), [status])
        assert.equal(headerOf(response, 'connection'), 'close')
      }
      await assertRefused(upload('/a').replace('Length: 5', 'Length: 50000000'), 413)
    })

    it('without a 100 to HTTP/1.0', async () => {
      assert.deepEqual(statuses(await sendBytes(gateway.port, `${upload('/a', '1.0')}hello`)), [200])
    })

    it('and refuses any other expectation with 417', async () => {
      for (const value of ['200-ok', '100-continue, x', 'x 100-continue']) {
        await assertRefused(`POST /a HTTP/1.1\r\nExpect: ${value}\r\nContent-Length: 5\r\n${CLOSE}hello`, 417)
      }
    })
  })

  describe('forwards pipelined requests one after the other', () => {
    it('in their order: the second reaches the upstream when the first has its response', async () => {
      const from = seen.length
      const wire = await openWire(gateway.port)
      const line = (path: string) => `GET ${path} HTTP/1.1\r\n${HOST}X-Request-ID: ${path.slice(1)}\r\n\r\n`
      wire.send(line('/held') + line('/second') + line('/third'))
      const held = await arrival('/held', from)
      // A later request of another connection gets through, so the second one is held back.
      await get('/another')
      assert.deepEqual(
        seen.slice(from).map(({ url }) => url),
        ['/held', '/another'],
      )
      held.res.end('held')
      await wire.has('/third')
      assert.deepEqual(
        [...wire.received.matchAll(/X-Request-ID: (\w+)/g)].map((match) => match[1]),
        ['held', 'second', 'third'],
      )
      assert.deepEqual(
        seen.slice(from).map(({ url }) => url),
        ['/held', '/another', '/second', '/third'],
      )
      wire.socket.destroy()
    })

    it('and responds to an unreadable one after all before it', async () => {
      const response = await sendBytes(
        gateway.port,
        `GET /one HTTP/1.1\r\n${HOST}\r\nPOST /two HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\nhiGET /three\r\n\r\nGET /four HTTP/1.1\r\n${CLOSE}`,
      )
      assert.deepEqual(statuses(response), [200, 200, 400])
      assert.ok(
        response.indexOf('/one') < response.indexOf('/two') &&
          response.indexOf('/two') < response.indexOf('400 Bad'),
      )
    })

    it('and refuses one whose body is broken while it waits; the upstream never sees it', async () => {
      const from = seen.length
      const wire = await openWire(gateway.port)
      wire.send(
        `GET /held HTTP/1.1\r\n${HOST}\r\nPOST /broken HTTP/1.1\r\n${HOST}X-Request-ID: broken-waiting\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      )
      ;(await arrival('/held', from)).res.end('held')
      assert.deepEqual(statuses(await wire.ended()), [200, 400])
      assert.equal(await statusCodeOf('broken-waiting'), 400)
      assert.ok(!seen.slice(from).some(({ url }) => url === '/broken'))
    })

    it('but none after Connection: close, the client’s or its own', async () => {
      const from = seen.length
      const asked = await sendBytes(
        gateway.port,
        `GET /one HTTP/1.1\r\n${CLOSE}GET /beyond HTTP/1.1\r\n${HOST}\r\n`,
      )
      assert.deepEqual(statuses(asked), [200])
      const told = await sendBytes(
        gateway.port,
        `GET /told HTTP/1.1\r\n${HOST}X_Odd: 1\r\n\r\nGET /beyond HTTP/1.1\r\n${HOST}X-Request-ID: beyond\r\n\r\n`,
      )
      assert.deepEqual(statuses(told), [400])
      assert.equal(headerOf(told, 'connection'), 'close')
      // The bytes behind the refusal are not read as a request, so the trail has no record.
      assert.ok(!gateway.audit().some(({ requestId }) => requestId === 'beyond'))
      assert.ok(!seen.slice(from).some(({ url }) => url === '/beyond'))
    })

    it('also a CONNECT, and an upgrade, which becomes an ordinary request', async () => {
      const from = seen.length
      const wire = await openWire(gateway.port)
      wire.send(`GET /held HTTP/1.1\r\n${HOST}\r\nCONNECT gateway:1 HTTP/1.1\r\n${HOST}\r\n`)
      const held = await arrival('/held', from)
      await get('/another')
      held.res.end('held')
      assert.deepEqual(statuses(await wire.ended()), [200, 405])

      const other = await openWire(gateway.port)
      const next = seen.length
      other.send(
        `GET /held HTTP/1.1\r\n${HOST}\r\nGET /socket HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
      )
      ;(await arrival('/held', next)).res.end('held')
      assert.deepEqual(statuses(await other.ended()), [200, 200])
      assert.equal((await arrival('/socket', next)).headers.upgrade, undefined)
    })

    it('however many: all that do not fit in memory wait in the kernel', async (t) => {
      const from = seen.length
      const wire = await openWire(gateway.port)
      t.after(() => wire.socket.destroy())
      // 15 MB in all, more than the kernel buffers for one connection.
      const filler = 'f'.repeat(6000)
      wire.send(`GET /held HTTP/1.1\r\n${HOST}\r\n`)
      const held = await arrival('/held', from)
      const before = await heldBytes(gateway)
      for (let i = 0; i < 2500; i++) {
        wire.send(`GET /ahead/${i} HTTP/1.1\r\n${HOST}X-Filler: ${filler}\r\n\r\n`)
      }
      // Waits until the sender can send no more, while another connection is served.
      await get('/another')
      await until(async () => {
        const stands = wire.socket.writableLength
        await get('/another')
        return stands > 0 && wire.socket.writableLength === stands ? true : undefined
      })
      assert.ok((await heldBytes(gateway)) - before < 2_000_000)
      held.res.end('held')
      // The 2,500 requests go one after the other, so this takes time.
      await until(() => (wire.received.includes('/ahead/2499') ? true : undefined), 100_000)
      const ahead = seen.slice(from).filter(({ url }) => url.startsWith('/ahead/'))
      assert.deepEqual(
        ahead.map(({ url }) => url),
        Array.from({ length: 2500 }, (_, i) => `/ahead/${i}`),
      )
    })
  })

  it('closes after a request for another protocol, and reads nothing behind it as a request', async () => {
    const from = seen.length
    for (const upgrade of ['h2c', 'websocket', 'foo']) {
      const response = await sendBytes(
        gateway.port,
        `POST /a HTTP/1.1\r\n${HOST}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: ${upgrade}\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 5\r\n\r\nhelloGET /smuggled HTTP/1.1\r\n${HOST}\r\n`,
      )
      assert.deepEqual(statuses(response), [200])
      assert.equal(headerOf(response, 'connection'), 'close')
    }
    const posts = seen.slice(from)
    assert.deepEqual(
      posts.map(({ url, body }) => [url, body]),
      Array(3).fill(['/a', 'hello']),
    )
    for (const { headers } of posts) {
      assert.equal(headers.upgrade, undefined)
      assert.equal(headers['http2-settings'], undefined)
    }
  })

  it('understands a request that comes byte by byte', async () => {
    const wire = await openWire(gateway.port)
    for (const byte of `POST /slow HTTP/1.1\r\n${HOST}Content-Length: 5\r\n\r\nhello`) {
      wire.send(byte)
      await new Promise(setImmediate)
    }
    assert.match(await wire.has('/slow'), /^HTTP\/1\.1 200 /)
    wire.socket.destroy()
  })

  describe('delivers the refusal to a client that sends 5 MB before it reads', () => {
    const cases: [string, number, string][] = [
      ['without a token', 401, '/private'],
      ['from the upstream, early', 403, '/early'],
      ['where nothing is', 404, '/PRIVATE'],
    ]
    for (const [what, status, path] of cases) {
      for (const framing of [`Content-Length: ${LONG_BODY}`, 'Transfer-Encoding: chunked']) {
        it(`${what} (${status}), ${framing}`, async () => {
          const wire = await openWire(gateway.port, { paused: true })
          const id = `refused-${status}-${framing.slice(0, 1)}`
          wire.send(`POST ${path} HTTP/1.1\r\n${HOST}X-Request-ID: ${id}\r\n${framing}\r\n\r\n`)
          if (framing.startsWith('T')) wire.send(`${LONG_BODY.toString(16)}\r\n`)
          for (let sent = 0; sent < LONG_BODY; sent += 50_000) {
            if (!wire.socket.write(Buffer.alloc(50_000, 97))) await once(wire.socket, 'drain')
            // The upstream gets the request when the body begins. The rest is sent after the refusal.
            if (sent === 0) assert.equal(await statusCodeOf(id), status)
          }
          if (framing.startsWith('T')) wire.send('\r\n0\r\n\r\n')
          wire.read()
          const response = await wire.ended()
          assert.deepEqual(statuses(response), [status])
          assert.equal(headerOf(response, 'connection'), 'close')
          assert.equal(wire.over, 'end')
        })
      }
    }
  })

  it('keeps the connection after a refusal whose request had no body', async () => {
    const wire = await openWire(gateway.port)
    for (const [line, status] of [
      ['GET /private', 401],
      ['GET /PRIVATE', 404],
      ['GET /a;b', 400],
      ['POST /private', 401],
    ] as const) {
      const before = statuses(wire.received).length
      wire.send(`${line} HTTP/1.1\r\n${HOST}\r\n`)
      await until(() => (statuses(wire.received).length > before ? true : undefined))
      assert.equal(statuses(wire.received).at(-1), status)
    }
    assert.ok(!/connection: close/i.test(wire.received))
    wire.socket.destroy()
  })

  describe('responds to a client that has closed its half', () => {
    it('after its request', async () => {
      const wire = await openWire(gateway.port)
      wire.socket.end(`POST /half HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\nhi`)
      assert.deepEqual(statuses(await wire.ended()), [200])
      assert.match(wire.received, /\/half$/)
    })

    it('after a 100 Continue that tests whether it is still there', async () => {
      const wire = await openWire(gateway.port)
      const from = seen.length
      wire.socket.end(`POST /held HTTP/1.1\r\n${HOST}Content-Length: 0\r\n\r\n`)
      await wire.has('HTTP/1.1 100 Continue\r\n\r\n')
      ;(await arrival('/held', from)).res.end('at last')
      assert.deepEqual(statuses(await wire.ended()), [100, 200])
      assert.match(wire.received, /at last$/)
    })

    it('after pipelined requests', async () => {
      const wire = await openWire(gateway.port)
      wire.socket.end(`GET /half HTTP/1.1\r\n${HOST}\r\n`.repeat(3))
      assert.deepEqual(statuses(await wire.ended()), [200, 200, 200])
    })
  })

  describe('gives a request up when its client goes away', () => {
    const phases: [string, string, 'destroy' | 'reset'][] = [
      ['while the upstream is working', `GET /held HTTP/1.1\r\n${HOST}`, 'destroy'],
      ['with a reset while the upstream is working', `GET /held HTTP/1.1\r\n${HOST}`, 'reset'],
      ['in the middle of an upload', `POST /held HTTP/1.1\r\n${HOST}Content-Length: 99999\r\n`, 'destroy'],
      [
        'in the middle of a chunked upload',
        `POST /held HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n`,
        'destroy',
      ],
      [
        'with a reset in the middle of an upload',
        `POST /held HTTP/1.1\r\n${HOST}Content-Length: 99999\r\n`,
        'reset',
      ],
      ['in the middle of the response', `GET /endless HTTP/1.1\r\n${HOST}`, 'destroy'],
    ]
    for (const [index, [what, head, how]] of phases.entries()) {
      it(`${what}: 499, and cancelled upstream`, async () => {
        const from = seen.length
        const wire = await openWire(gateway.port)
        wire.send(
          `${head}X-Request-ID: gone-${index}\r\n\r\n${head.includes('chunked') ? '5\r\nhe' : head.includes('Length') ? 'he' : ''}`,
        )
        const entry = await until(() => seen[from])
        if (how === 'reset') wire.socket.resetAndDestroy()
        else wire.socket.destroy()
        assert.equal(await statusCodeOf(`gone-${index}`), 499)
        await until(() => (entry.aborted ? true : undefined))
        assert.equal(entry.whole && head.startsWith('POST'), false)
      })
    }

    it('in the middle of the head: 499, and nothing is sent to the upstream', async () => {
      const count = () => gateway.audit().filter((record) => record.statusCode === 499).length
      const before = count()
      const wire = await openWire(gateway.port)
      wire.send('GET /a HTTP/1.1\r\nHo')
      await new Promise(setImmediate)
      wire.socket.destroy()
      await until(() => (count() === before + 1 ? true : undefined))
      assert.equal(gateway.audit().findLast((record) => record.statusCode === 499)?.path, '/a')
    })

    it('while its other requests wait: only the one that has begun has a pair of records', async () => {
      const from = seen.length
      const wire = await openWire(gateway.port)
      for (const id of ['first', 'second', 'third']) {
        wire.send(`GET /held HTTP/1.1\r\n${HOST}X-Request-ID: waiting-${id}\r\n\r\n`)
      }
      await arrival('/held', from)
      wire.socket.destroy()
      const [request, response] = await gateway.pair('waiting-first')
      assert.deepEqual([request.path, response.statusCode], ['/held', 499])
      const waiting = gateway.audit().filter(({ requestId }) => requestId?.startsWith('waiting-'))
      assert.equal(waiting.length, 2)
      assert.equal(seen.length, from + 1)
    })

    it('while unreadable bytes or a CONNECT wait behind the request', async () => {
      for (const rest of ['garbage\r\n\r\n', `CONNECT gateway:1 HTTP/1.1\r\n${HOST}\r\n`]) {
        const from = seen.length
        const before = gateway.audit().length
        const wire = await openWire(gateway.port)
        wire.send(`GET /held HTTP/1.1\r\n${HOST}\r\n${rest}`)
        await arrival('/held', from)
        wire.socket.resetAndDestroy()
        const records = await until(() => {
          const later = gateway.audit().slice(before)
          return later.length === 2 ? later : undefined
        })
        assert.deepEqual(
          records.flatMap(({ statusCode }) => statusCode ?? []),
          [499],
        )
      }
    })

    it('by not reading: broken off when the time of the route is up, with little held in memory', async (t) => {
      const patient = await startGateway({
        env: MEASURABLE,
        config: {
          upstream: upstream.url,
          timeouts: { headersMs: 30_000 },
          routes: [{ path: '/*', auth: ['none'], timeoutMs: 5000 }],
        },
      })
      t.after(() => patient.end())
      await sendBytes(patient.port, `GET /first HTTP/1.1\r\n${CLOSE}`)
      const before = await heldBytes(patient)
      const wires = await Promise.all(
        Array.from({ length: 20 }, () => openWire(patient.port, { paused: true })),
      )
      for (const [index, wire] of wires.entries()) {
        wire.send(`GET /endless HTTP/1.1\r\n${HOST}X-Request-ID: unread-${index}\r\n\r\n`)
        // The response has begun. The client reads no more than what came first.
        await once(wire.socket, 'readable')
      }
      const pairs = Promise.all(Array.from(wires.keys(), (index) => patient.pair(`unread-${index}`)))
      let over = false
      void pairs.finally(() => {
        over = true
      })
      // Measures all the time, because nothing says when the buffers are full.
      while (!over) {
        assert.ok((await heldBytes(patient)) - before < 60_000_000)
        await pause(100)
      }
      for (const [, { statusCode }] of await pairs) assert.equal(statusCode, 408)
      for (const wire of wires) {
        wire.read()
        await wire.ended()
        assert.equal(wire.over, 'ECONNRESET')
      }
    })
  })

  it('closes the connection of a client that reads no response', async (t) => {
    const [timeoutMs, requestMs] = [500, 500]
    const impatient = await startGateway({
      config: {
        upstream: upstream.url,
        timeouts: { requestHeadersMs: requestMs, requestMs, headersMs: 400, bodyIdleMs: 400 },
        routes: [{ path: '/*', auth: ['none'], timeoutMs }],
      },
    })
    t.after(() => impatient.end())
    const wire = await openWire(impatient.port, { paused: true })
    const statusCodes = () =>
      impatient.audit().flatMap(({ type, statusCode }) => (type === 'API_RESPONSE' ? [statusCode] : []))
    let left = 0
    // Sends until the kernel's buffers on both sides are full, and the gateway gives up.
    for (let sent = 50; left === 0; sent += 50) {
      wire.send(`GET /piece HTTP/1.1\r\n${HOST}\r\n`.repeat(50))
      const settled = async () => {
        left = await impatient.metric('gateway_requests_abandoned_total')
        return statusCodes().length === sent || left > 0 ? true : undefined
      }
      // Node's timeout needs two checks to notice that nothing moves, so this may wait twice.
      await until(settled).catch(() => until(settled))
    }
    assert.ok(statusCodes().includes(200))
    wire.socket.destroy()
  })

  describe('survives', () => {
    /** Ids of the responses that have come since the last look at the trail. */
    let ids: string[] = []
    const openPairs = () => {
      const open = new Map<string, number>(ids.map((id) => [id, Number.NaN]))
      for (const { type, requestId } of gateway.audit()) {
        if (requestId === undefined) continue
        open.set(requestId, (open.get(requestId) || 0) + (type === 'API_REQUEST' ? 1 : -1))
      }
      return [...open].filter(([, sum]) => sum !== 0)
    }
    /** Waits until nothing is in flight, and every request has both records. */
    const settled = async () => {
      // The gateway may accept a closed connection late, so its request may begin after a look.
      await until(async () =>
        (await gateway.metric('gateway_http_requests_in_flight')) === 0 && openPairs().length === 0
          ? true
          : undefined,
      )
      ids = []
    }

    /** Sends the bytes, closes its half, and checks that each response has a whole head with the mandatory headers. */
    async function assertSound(bytes: Buffer): Promise<void> {
      const wire = await openWire(gateway.port)
      wire.socket.end(bytes)
      const response = await wire.ended()
      assert.match(response, /^$|^HTTP\/1\.1 /)
      for (const head of response.split(/^(?=HTTP\/1\.1 [2-5])/m)) {
        if (!/^HTTP\/1\.1 [2-5]/.test(head)) continue
        for (const [name, value] of MANDATORY_HEADERS)
          assert.equal(headerOf(head, name.toLowerCase()), value, `${name} in ${head.slice(0, 400)}`)
        const id = headerOf(head, 'x-request-id')
        assert.ok(id, `x-request-id is not once in ${head.slice(0, 400)}`)
        ids.push(id)
      }
    }

    it('random bytes', async () => {
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), (bytes) => assertSound(Buffer.from(bytes))),
        { numRuns: 100 * LONGER },
      )
      assert.ok(ids.length > 0)
      await settled()
    })

    it('random mutations of good requests', async () => {
      const good = [
        `GET /a?b=c HTTP/1.1\r\n${HOST}User-Agent: x\r\n\r\n`,
        `POST /b HTTP/1.1\r\n${HOST}Content-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello`,
        `PUT /c HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nT: y\r\n\r\n`,
        `GET /d HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
        `POST /e HTTP/1.1\r\n${HOST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi`,
        `CONNECT gateway:1 HTTP/1.1\r\n${HOST}\r\n`,
        `HEAD http://gateway/f HTTP/1.0\r\n${HOST}Connection: keep-alive\r\n\r\n`,
      ]
      const token = fc.constantFrom(
        '\r\n',
        '\r',
        '\n',
        '\0',
        ' ',
        ':',
        '0',
        ',',
        ';',
        '%2f',
        'chunked',
        'HTTP/1.0',
        'Content-Length: 3\r\n',
        'Connection: close\r\n',
        'Upgrade: x\r\n',
        '\xff',
        '',
      )
      const mutation = fc.record({ at: fc.nat(), length: fc.nat({ max: 6 }), put: token })
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.constantFrom(...good), { minLength: 1, maxLength: 4 }),
          fc.array(mutation, { minLength: 1, maxLength: 4 }),
          (requests, mutations) => {
            let bytes = requests.join('')
            for (const { at, length, put } of mutations) {
              const from = at % bytes.length
              bytes = bytes.slice(0, from) + put + bytes.slice(from + length)
            }
            return assertSound(Buffer.from(bytes, 'latin1'))
          },
        ),
        { numRuns: 200 * LONGER },
      )
      assert.ok(ids.length > 0)
      await settled()
    })

    it('a hundred clients that come and go at any time', async () => {
      const clients = Array.from({ length: 100 }, (_, index) => {
        const req = request({
          port: gateway.port,
          path: index % 3 === 0 ? '/held' : '/a',
          method: index % 2 === 0 ? 'POST' : 'GET',
        })
        req.on('error', () => {})
        req.on('response', (res) => res.resume())
        if (index % 2 === 0) req.write('some')
        else req.end()
        return req
      })
      for (const [index, req] of clients.entries()) {
        if (index % 5 === 0) await new Promise(setImmediate)
        req.destroy()
      }
      await settled()
      assert.equal(statusOf(await get('/alive')), 200)
    })
  })
})
