import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { call } from './client.ts'
import { answered } from './http2-client.ts'
import { commonGateway, type TestGateway, until } from './running-gateway.ts'

describe('an HTTP/2 upstream', () => {
  let gateway: TestGateway
  let service: Http2Server
  const checks: string[] = []
  const trailersSeen: unknown[] = []

  before(async () => {
    service = createServer()
    service.on('stream', (stream: ServerHttp2Stream, headers) => {
      stream.on('error', () => {})
      const path = String(headers[':path'])
      const method = String(headers[':method'])
      if (path === '/up') checks.push(String(headers['user-agent']))
      stream.on('trailers', (trailers) => trailersSeen.push(trailers['x-sum'], trailers['x-auth-subject']))
      let body = ''
      stream.on('data', (piece) => {
        body += piece
      })
      stream.on('end', () => {
        if (stream.destroyed) return
        const status = path === '/api/none' ? 204 : 200
        stream.respond(
          { ':status': status, 'x-powered-by': 'x', 'set-cookie': ['a=1', 'b=2'] },
          { waitForTrailers: true },
        )
        stream.on('wantTrailers', () =>
          stream.sendTrailers({ 'x-trailer': 'last', 'cache-control': 'public' }),
        )
        const { te, upgrade, connection, cookie } = headers
        const fields = { host: headers[':authority'], te, upgrade, connection, cookie }
        const seen = { method, path, ...fields, body, endsWithHead: stream.endAfterHeaders }
        stream.end(status === 204 || method === 'HEAD' ? undefined : JSON.stringify(seen))
      })
    })
    service.listen(0, '127.0.0.1')
    await once(service, 'listening')
    const { port } = service.address() as AddressInfo
    gateway = await commonGateway({
      config: {
        http2: true,
        upstreams: {
          new: { targets: [`h2c://127.0.0.1:${port}`], healthCheck: { path: '/up', intervalMs: 100 } },
        },
        routes: [{ path: '/api/*', auth: ['none'], upstream: 'new' }],
      },
    })
  })
  after(async () => {
    service.close()
  })

  it('serves HTTP/1.1 clients, which get no trailers', async () => {
    const got = await call(`${gateway.url}/api/x?a=1`, {
      headers: { Cookie: 'c=1', Connection: 'close, X-Y' },
    })
    const seen = JSON.parse(got.body)
    assert.deepEqual(
      [got.status, seen.path, seen.host, seen.te, seen.connection, seen.cookie],
      [200, '/api/x?a=1', new URL(gateway.url).host, undefined, undefined, 'c=1'],
    )
    assert.equal(got.headers['x-powered-by'], undefined)
    assert.equal(got.headers['cache-control'], 'no-store')
    const put = await call(`${gateway.url}/api/x`, { method: 'PUT', body: 'hello' })
    assert.equal(JSON.parse(put.body).body, 'hello')
    const head = await call(`${gateway.url}/api/x`, { method: 'HEAD' })
    assert.deepEqual([head.status, head.body], [200, ''])
    assert.equal((await call(`${gateway.url}/api/none`)).status, 204)
  })

  it('gets an upgrade as an ordinary request', async () => {
    const headers = {
      Connection: 'Upgrade',
      Upgrade: 'websocket',
      'Sec-WebSocket-Version': '13',
      'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    }
    const got = await call(`${gateway.url}/api/socket`, { headers })
    assert.deepEqual([got.status, JSON.parse(got.body).upgrade], [200, undefined])
  })

  it('exchanges allowed trailers with HTTP/2 clients', async () => {
    const session = connect(gateway.url)
    const stream = session.request(
      { ':method': 'POST', ':path': '/api/x', te: 'trailers' },
      { waitForTrailers: true },
    )
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-sum': '9', 'x-auth-subject': 'forged' }))
    let trailers: object = {}
    stream.on('trailers', (received) => {
      trailers = { ...received }
    })
    stream.write('begun')
    stream.end(', done')
    let text = ''
    for await (const piece of stream) text += piece
    session.close()
    assert.deepEqual([JSON.parse(text).te, JSON.parse(text).body], ['trailers', 'begun, done'])
    assert.deepEqual(Object.entries(trailers), [['x-trailer', 'last']])
    assert.deepEqual(trailersSeen, ['9', undefined])
  })

  it('gets no body if an empty frame ended the request, except in gRPC or with trailers', async () => {
    const session = connect(gateway.url)
    const endsWithHead = async (headers: Record<string, string>, waitForTrailers = false) => {
      const stream = session.request({ ':path': '/api/x', ...headers }, { endStream: false, waitForTrailers })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'x-sum': '0' }))
      stream.end()
      return JSON.parse((await answered(stream)).body).endsWithHead
    }
    const post = { ':method': 'POST' }
    assert.equal(await endsWithHead({}), true)
    assert.equal(await endsWithHead(post), true)
    assert.equal(await endsWithHead({ ...post, 'content-type': 'application/grpc' }), false)
    assert.equal(await endsWithHead(post, true), false)
    assert.deepEqual(trailersSeen.slice(-2), ['0', undefined])
    session.close()
  })

  it('gets its health checks over HTTP/2 too', async () => {
    await until(() => (checks.length > 1 ? true : undefined))
    assert.equal(checks[0], 'countersign-health-check')
  })
})
