import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import {
  connect,
  createServer as createHttp2Server,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { sendBytes, statusOf } from './client.ts'
import { answered, ask } from './http2-client.ts'
import { commonGateway, type TestGateway, until } from './running-gateway.ts'
import { headerOf, openWire } from './wire.ts'

const ROUTES = [
  { path: '/*', auth: ['none'] },
  { path: '/api/*', auth: ['none'], rewrite: { prefix: '/v2' } },
  { path: '/root/*', auth: ['none'], rewrite: { prefix: '/' } },
  { path: '/users/{id}', auth: ['none'], rewrite: { path: '/internal/{id}' } },
  { path: '/shops/{shop}/items/{item}:close', auth: ['none'], rewrite: { path: '/i/{item}/of/{shop}.json' } },
  { path: '/named/*', auth: ['none'], upstreamHost: 'internal.example:8443' },
  { path: '/target/*', auth: ['none'], upstreamHost: 'target' },
  { path: '/raw/*', auth: ['none'], rawPath: true },
  { path: '/raw/inner/*', auth: ['bearer'] },
  {
    path: '/fields/*',
    auth: ['none'],
    underscoreNames: true,
    requestHeaders: {
      allow: ['X-Auth-Token', 'X-HTTP-Method-Override'],
      set: { 'X-Env': 'prod' },
      remove: ['Cookie'],
    },
    responseHeaders: { set: { 'X-Served-By': 'bank' }, remove: ['X-Internal'] },
  },
  { path: '/old/*', auth: ['none'], deprecated: '2026-01-01', sunset: '2027-01-31T12:00:00Z' },
  { path: '/old/closed', auth: ['bearer'], deprecated: '2026-01-01' },
  { path: '/new/*', auth: ['none'], upstream: 'h2', upstreamHost: 'target', rewrite: { prefix: '/svc' } },
  { path: '/either/*', auth: ['none'], upstream: 'either', upstreamHost: 'target' },
  {
    path: '/new/fields',
    auth: ['none'],
    upstream: 'h2',
    requestHeaders: { set: { 'X-Env': 'prod' }, remove: ['X-Debug'] },
  },
  { path: '/new/named/*', auth: ['none'], upstream: 'h2', upstreamHost: 'grpc.internal' },
]

describe('a request on its way to the service', () => {
  let service: Server
  let http2: Http2Server
  let gateway: TestGateway
  let upstreamPort = 0
  let http2Port = 0
  /** Heads as the service received them, byte by byte. */
  const heads: string[] = []
  const streams: string[] = []
  const trailers: IncomingHttpHeaders[] = []

  before(async () => {
    service = createServer((socket) => {
      let received = ''
      socket.on('error', () => {})
      socket.on('data', (chunk) => {
        received += chunk.toString('latin1')
        for (let end = received.indexOf('\r\n\r\n'); end >= 0; end = received.indexOf('\r\n\r\n')) {
          const head = received.slice(0, end)
          if (!head.includes('/jwks.json')) heads.push(head)
          received = received.slice(end + 4)
          const isUpgrade = /^upgrade:/im.test(head)
          socket.write(
            isUpgrade
              ? 'HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n'
              : 'HTTP/1.1 200 OK\r\nX-Internal: a\r\nX-Served-By: other\r\nDeprecation: @1\r\nSunset: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 2\r\n\r\nok',
          )
        }
      })
    }).listen(0, '127.0.0.1')
    http2 = createHttp2Server().on('stream', (stream: ServerHttp2Stream, head) => {
      streams.push(`${head[':authority']} ${head[':path']}`)
      stream.on('trailers', (fields) => trailers.push(fields))
      stream.resume()
      stream.respond({ ':status': 200 })
      stream.on('end', () => stream.end('ok'))
    })
    http2.listen(0, '127.0.0.1')
    await Promise.all([once(service, 'listening'), once(http2, 'listening')])
    upstreamPort = (service.address() as AddressInfo).port
    http2Port = (http2.address() as AddressInfo).port
    gateway = await commonGateway({
      config: {
        ...configOf(ROUTES),
      },
      limits: [{ path: '/raw/limited', limit: 100, window: '1h', purpose: 'tests' }],
    })
  })
  const configOf = (routes: readonly object[]) => ({
    http2: true,
    upstream: `http://127.0.0.1:${upstreamPort}`,
    upstreams: {
      h2: { targets: [`h2c://127.0.0.1:${http2Port}`] },
      either: { targets: ['http://localhost:1', `http://localhost:${upstreamPort}`] },
    },
    routes,
  })
  after(async () => {
    service.close()
    http2.close()
  })

  const send = (target: string, fields = '', method = 'GET') =>
    sendBytes(
      gateway.port,
      `${method} ${target} HTTP/1.1\r\nHost: bank.example\r\n${fields}Connection: close\r\n\r\n`,
    )
  /** The target that the service got, or the code of the refusal. */
  const targetOf = async (target: string) => {
    const from = heads.length
    const response = await send(target)
    if (statusOf(response) !== 200) return /"code":"(\w+)"/.exec(response)?.[1]
    return heads[from]?.split(' ')[1]
  }
  /** Values of a field that the service got. */
  const valuesOf = (name: string) =>
    [...(heads.at(-1) ?? '').matchAll(new RegExp(`^${name}: (.*)$`, 'gim'))].map(([, value]) => value)

  it('gets another prefix, or another path with the same parameters, and keeps its query', async () => {
    assert.equal(await targetOf('/api/a/b?x=/../&y=%2F'), '/v2/a/b?x=/../&y=%2F')
    assert.equal(await targetOf('/api/'), '/v2/')
    assert.equal(await targetOf('/root/a%20b'), '/a%20b')
    assert.equal(await targetOf('/users/a%3Fb%23c'), '/internal/a%3Fb%23c')
    assert.equal(await targetOf('/shops/s1/items/7:close?z'), '/i/7/of/s1.json?z')
    assert.equal(await targetOf('http://bank.example/users/7'), '/internal/7')
  })

  it('cannot leave the path of its rewrite by a parameter', async () => {
    for (const value of [
      '..',
      '.',
      '%2e%2e',
      '%2E',
      '..%2F..%2Fadmin',
      'a%2Fb',
      'a%5Cb',
      'a%00',
      'a;b',
      'a%3Bb',
    ])
      assert.doesNotMatch(
        String(await targetOf(`/users/${value}`)),
        /^\/(?!internal\/[^/]+$|$|users\/$)/,
        value,
      )
    assert.equal(await targetOf('/shops/s1/items/.:close'), 'invalid_target')
    assert.equal(await targetOf('/shops/s1/items/..:close'), 'invalid_target')
    assert.equal(await targetOf('/users/a%252F..%252Fb'), '/internal/a%252F..%252Fb')
  })

  it('is recorded and counted by the path of the client', async () => {
    const response = await send('/users/42')
    const [request] = await gateway.pair(String(headerOf(response, 'x-request-id')))
    assert.equal(request.path, '/users/42')
    assert.ok(
      (await gateway.metric('gateway_http_requests_total{route="/users/{id}",method="GET",status="200"}')) >
        0,
    )
  })

  it('has the Host that the row says, and the Host of the client in X-Forwarded-Host', async () => {
    for (const [path, host] of [
      ['/plain', 'bank.example'],
      ['/named/a', 'internal.example:8443'],
      ['/target/a', `127.0.0.1:${upstreamPort}`],
    ] as const) {
      await send(path)
      assert.deepEqual([valuesOf('host'), valuesOf('x-forwarded-host')], [[host], ['bank.example']])
    }
    await send('/new/a')
    await send('/new/named/a')
    assert.deepEqual(streams, [`127.0.0.1:${http2Port} /svc/a`, 'grpc.internal /new/named/a'])
  })

  it('keeps a raw path only if every reading of it leads to the same row', async () => {
    for (const path of [
      '/raw/%7Ea/%c3%a9',
      '/raw//a',
      '/raw/a/./b',
      '/raw/x/../y',
      '/raw/100%25',
      '/raw/%252e',
      '/raw/a%252Fb?q=%7E',
    ])
      assert.equal(await targetOf(path), path)
    assert.equal(await targetOf('http://bank.example/raw/%7e?x'), '/raw/%7e?x')
    for (const path of [
      '//raw/a',
      '/raw/inner/../a',
      '/%72aw/a',
      '/raw/%69nner/a',
      '/raw//inner/a',
      '/raw/%2569nner/a',
      '/raw/a%252F..%252Finner/b',
      '/raw/%252e%252e/a',
      '/raw/a/%252e%252e/%252e%252e/b',
      '/raw/.%253b/..%253b/a',
      '/raw/..%255c..%255ca',
      '/raw/%2500',
      '/raw/%25c0%25af',
      '/raw/%25u002e',
      '/raw/%6Cimited',
      '/raw//limited',
      '/raw/INNER/a',
    ])
      assert.match(String(await targetOf(path)), /^(?:invalid_target|missing_token|not_found)$/, path)
  })

  it('has the fields that the row allows and sets, but no field that it removes', async () => {
    const fields =
      'X-Auth-Token: t\r\nX_Auth_Token: u\r\nX-Auth-Subject: root\r\nX_Auth_Subject: root\r\nX-Real-IP: ::1\r\nX-HTTP-Method-Override: PATCH\r\nX-Env: dev\r\nX_Env: dev\r\nCookie: a=b\r\nX-Other: \xe9\r\n'
    const response = await send('/fields/a', fields, 'POST')
    assert.equal(statusOf(response), 200, response)
    assert.deepEqual(valuesOf('x-auth-token'), ['t'])
    assert.deepEqual(valuesOf('x-http-method-override'), ['PATCH'])
    assert.deepEqual(valuesOf('x-env'), ['prod'])
    assert.deepEqual(valuesOf('x-other'), ['\xe9'])
    for (const name of ['x_auth_token', 'x-auth-subject', 'x_auth_subject', 'x-real-ip', 'x_env', 'cookie'])
      assert.deepEqual(valuesOf(name), [], name)
    assert.deepEqual(
      [headerOf(response, 'x-served-by'), headerOf(response, 'x-internal')],
      ['bank', undefined],
    )
    assert.equal(headerOf(response, 'x-frame-options'), 'DENY')
    await send('/fields/a', 'Connection: X-Auth-Token\r\nX-Auth-Token: t\r\n')
    assert.deepEqual(valuesOf('x-auth-token'), [])
  })

  it('with a method override is refused on a row that does not allow the field', async () => {
    for (const name of ['X-HTTP-Method-Override', 'X_HTTP_Method_Override', 'X-HTTP-Method']) {
      const path = name === 'X-HTTP-Method-Override' ? '/plain' : '/fields/a'
      const response = await send(path, `${name}: DELETE\r\n`, 'POST')
      assert.equal(statusOf(response), 400)
      assert.match(response, /"code":"method_override"/)
    }
  })

  it('has only the fields of its row after a request of another row on the connection', async () => {
    const wire = await openWire(gateway.port)
    const from = heads.length
    for (const path of ['/plain', '/fields/a', '/plain', '/named/a'])
      wire.send(`GET ${path} HTTP/1.1\r\nHost: bank.example\r\nX-Auth-Token: t\r\n\r\n`)
    await wire.has(/(?:HTTP\/1\.1 200[\s\S]*){4}/)
    wire.socket.destroy()
    const found = heads
      .slice(from)
      .map((head) => [/x-auth-token/i.test(head), /x-env/i.test(head), /internal\.example/.test(head)])
    assert.deepEqual(found, [
      [false, false, false],
      [true, true, false],
      [false, false, false],
      [false, false, true],
    ])
  })

  it('for a WebSocket has the path, Host and fields of its row too', async () => {
    await send(
      '/api/ws',
      'Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n',
    )
    assert.match(heads.at(-1) ?? '', /^GET \/v2\/ws HTTP\/1\.1\r\nhost: bank\.example\r\nconnection: upgrade/)
  })

  it('of a deprecated row gets Deprecation and Sunset in every response', async () => {
    const served = await send('/old/a')
    assert.deepEqual(
      [headerOf(served, 'deprecation'), headerOf(served, 'sunset')],
      ['@1767225600', 'Sun, 31 Jan 2027 12:00:00 GMT'],
    )
    const refused = await send('/old/closed')
    assert.deepEqual([statusOf(refused), headerOf(refused, 'deprecation')], [401, '@1767225600'])
    assert.equal(headerOf(await send('/plain'), 'deprecation'), '@1')
  })

  it('has the Host of the upstream that responds, also after a retry', async () => {
    for (let i = 0; i < 3; i++) {
      assert.equal(statusOf(await send('/either/a')), 200)
      assert.deepEqual(valuesOf('host'), [`localhost:${upstreamPort}`])
    }
  })

  it('over HTTP/2 is changed as over HTTP/1.1', async () => {
    const session = connect(gateway.url)
    const over = (path: string, headers: Record<string, string> = {}) =>
      ask(session, { path, headers: { Host: 'bank.example', ...headers } })
    await over('/users/a%20b?c', { 'x-auth-token': 't' })
    assert.match(heads.at(-1) ?? '', /^GET \/internal\/a%20b\?c HTTP\/1\.1\r\nhost: bank\.example\r\n/)
    assert.deepEqual(valuesOf('x-auth-token'), [])
    await over('/raw/%7e//a')
    assert.match(heads.at(-1) ?? '', /^GET \/raw\/%7e\/\/a HTTP/)
    assert.equal((await over('/raw/%2569nner/a')).status, 400)
    await over('/fields/a', { 'x-auth-token': 't', 'x-auth-subject': 'root', cookie: 'a=b' })
    assert.deepEqual(
      [valuesOf('x-auth-token'), valuesOf('x-auth-subject'), valuesOf('cookie')],
      [['t'], [], []],
    )
    assert.equal((await over('/plain', { 'x-http-method': 'DELETE' })).status, 400)
    session.close()
  })

  it('has no trailer that its row sets or removes, because some services read trailers as headers', async () => {
    const session = connect(gateway.url)
    const stream = session.request(
      { ':method': 'POST', ':path': '/new/fields', 'content-type': 'application/grpc', te: 'trailers' },
      { waitForTrailers: true },
    )
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-env': 'dev', 'x-debug': '1', 'x-sum': '2' }))
    stream.end('body')
    assert.equal((await answered(stream)).status, 200)
    session.close()
    const [received] = await until(() => (trailers.length > 0 ? trailers : undefined))
    assert.deepEqual(Object.entries(received ?? {}), [['x-sum', '2']])
  })

  it('is changed by the rows in force, also on a connection that was open before an edit', async () => {
    const wire = await openWire(gateway.port)
    const sent = async () => {
      const from = heads.length
      wire.send('GET /api/edited HTTP/1.1\r\nHost: bank.example\r\nX-A: a\r\n\r\n')
      return until(() => heads[from])
    }
    assert.match(await sent(), /^GET \/v2\/edited /)
    const edited = ROUTES.map((row) =>
      row.path === '/api/*'
        ? { ...row, rewrite: { prefix: '/v3' }, requestHeaders: { remove: ['x-a'] } }
        : row,
    )
    writeFileSync(join(gateway.dir, 'gateway.json'), JSON.stringify(configOf(edited)))
    const head = await until(async () => {
      const now = await sent()
      return now.startsWith('GET /v3/edited ') ? now : undefined
    })
    assert.doesNotMatch(head, /^x-a:/im)
    wire.socket.destroy()
  })
})
