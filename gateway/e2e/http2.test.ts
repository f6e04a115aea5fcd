import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type ClientHttp2Session, connect, constants } from 'node:http2'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { MANDATORY_HEADERS } from '../edge/rules/policy/response-policy.ts'
import { unpaired } from './audit-pairs.ts'
import { call } from './client.ts'
import { type Asked, answered, ask, type Received } from './http2-client.ts'
import { skipWithout } from './other-programs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, runTool, secureCall, type TlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/** Fields that differ by version of HTTP, or each time. */
const OWN = new Set([
  ':status',
  'x-seen-via',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'x-request-id',
  'date',
])

const OVERRULING = ['Alt-Svc', 'CDN-Cache-Control', 'Surrogate-Control', 'A-CDN-Cache-Control']

describe('HTTP/2', () => {
  let tls: TlsSetup
  let upstream: TestUpstream
  let gateway: TestGateway
  let session: ClientHttp2Session
  /** Responses that wait, by path. */
  const waiting = new Map<string, () => void>()
  const gone: string[] = []

  before(async () => {
    tls = await makeTlsSetup()
    upstream = await startUpstream((req, res) => {
      const url = req.url ?? ''
      res.on('close', () => {
        if (!res.writableFinished) gone.push(url)
      })
      if (url.includes('/wait')) {
        waiting.set(url, () => res.end('at last'))
        return
      }
      if (url.endsWith('/large')) {
        res.end(Buffer.alloc(3_000_000, 'x'))
        return
      }
      if (url.endsWith('/nothing')) res.statusCode = 204
      res.setHeader('Keep-Alive', 'timeout=9')
      for (const name of OVERRULING) res.setHeader(name, 'x')
      res.setHeader('Set-Cookie', ['a=1', 'b=2'])
      req.on('data', () => {})
      const { host, cookie, via = '' } = req.headers
      res.setHeader('X-Seen-Via', via)
      req.on('end', () => res.end(req.method === 'HEAD' ? undefined : JSON.stringify({ host, cookie, url })))
    })
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        http2: true,
        via: true,
        routes: [
          { path: '/open/*', auth: ['none'], maxBodyBytes: 1000, methods: ['GET', 'HEAD', 'PUT', 'POST'] },
          { path: '/own/*', auth: ['bearer'] },
          { path: '/brief/*', auth: ['none'], idleTimeoutMs: 300 },
        ],
      },
      env: tls.env,
    })
    session = connect(gateway.url)
  })
  after(async () => {
    session.close()
    await gateway.end()
    upstream.close()
  })

  function comparable({ status, headers, body }: Received) {
    const fields = Object.entries(headers).filter(([name]) => !OWN.has(name))
    const text = body.replace(/"requestId":"[^"]*"/, '"requestId":""')
    return { status, headers: Object.fromEntries(fields.sort()), body: text }
  }

  const CASES: Readonly<Record<string, Asked>> = {
    'a response': { path: '/open/x?a=%41' },
    HEAD: { method: 'HEAD', path: '/open/x' },
    '204': { path: '/open/nothing' },
    'a body': { method: 'POST', path: '/open/x', body: 'hello' },
    'a large body': {
      method: 'POST',
      path: '/open/x',
      body: 'x'.repeat(2000),
      headers: { 'content-length': '2000' },
    },
    'no credential': { path: '/own/x' },
    'a bad credential': { path: '/own/x', headers: { authorization: 'Bearer x' } },
    'no route': { path: '/nowhere' },
    'a method that the route has not': { method: 'DELETE', path: '/open/x' },
    TRACE: { method: 'TRACE', path: '/open/x' },
    'an encoded slash': { path: '/open/a%2Fb' },
    'a semicolon': { path: '/open/a;b' },
    'a long target': { path: `/open/${'x'.repeat(9000)}` },
    'a bad Host': { path: '/open/x', headers: { Host: 'a b' } },
    'an odd name': { path: '/open/x', headers: { a_b: '1' } },
    'a method override': { path: '/open/x', headers: { 'x-http-method-override': 'DELETE' } },
    'an expectation': { path: '/open/x', headers: { expect: 'tea' } },
    'too many fields': {
      path: '/open/x',
      headers: Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`x-${at}`, '1'])),
    },
  }
  for (const [what, asked] of Object.entries(CASES))
    it(`gets what HTTP/1.1 gets, with a pair of audit records: ${what}`, async () => {
      const host = `127.0.0.1:${gateway.port}`
      const headers = { Host: host, ...asked.headers }
      const { Host: _, ...own } = headers
      const old = await call(`${gateway.url}${asked.path}`, {
        method: 'GET',
        ...asked,
        headers: asked.headers?.Host ? headers : own,
      })
      const now = await ask(session, { ...asked, headers })
      assert.deepEqual(comparable(now), comparable({ ...old, headers: old.headers }))
      const [oldPair, newPair] = await Promise.all(
        [old, now].map(async (one) => {
          const [request, response] = await gateway.pair(String(one.headers['x-request-id']))
          return [request.type, request.method, request.path, response.type, response.statusCode]
        }),
      )
      assert.deepEqual(newPair, oldPair)
    })

  it('reaches the service as HTTP/1.1 does, with joined cookies, and Via names the hop', async () => {
    const stream = session.request({ ':path': '/open/x', cookie: ['a=1', 'b=2'] as unknown as string })
    const { body, headers } = await answered(stream)
    assert.equal(headers['x-seen-via'], '2 countersign')
    for (const name of OVERRULING) assert.equal(headers[name.toLowerCase()], undefined, name)
    assert.deepEqual(JSON.parse(body), {
      host: `127.0.0.1:${gateway.port}`,
      cookie: 'a=1; b=2',
      url: '/open/x',
    })
  })

  it('passes on several responses at once that are larger than any window', async () => {
    const all = await Promise.all([1, 2, 3].map(() => ask(session, { path: '/open/large' })))
    for (const { body } of all) assert.equal(body.length, 3_000_000)
  })

  it('works with a client whose HPACK table is empty or small', async () => {
    for (const headerTableSize of [0, 1000]) {
      const frugal = connect(gateway.url, { settings: { headerTableSize } })
      const statuses = []
      for (const path of ['/open/x', '/nowhere', '/open/x'])
        statuses.push((await ask(frugal, { path })).status)
      frugal.close()
      assert.deepEqual(statuses, [200, 404, 200])
    }
  })

  it('is spoken over TLS with clients that offer it, and HTTP/1.1 with others', async () => {
    const secure = connect(`https://localhost:${gateway.tlsPort}`, { ca: tls.ca.certPem })
    const { status } = await ask(secure, { path: '/open/x' })
    assert.deepEqual([status, secure.alpnProtocol], [200, 'h2'])
    secure.close()
    const old = await secureCall({ port: gateway.tlsPort, path: '/open/x', ca: tls.ca })
    assert.equal(old.status, 200)
  })

  it('works with curl, over TLS by ALPN, and without TLS by prior knowledge', {
    skip: skipWithout('curl'),
  }, async () => {
    const ca = tls.write('curl-ca.pem', tls.ca.certPem)
    const version = ['-sS', '--fail', '-o', join(tls.dir, 'body'), '-w', '%{http_version}']
    const secure = `https://localhost:${gateway.tlsPort}/open/large`
    const runs = [
      [...version, '--cacert', ca, secure],
      [...version, '--cacert', ca, '--http1.1', secure],
      [...version, '--http2-prior-knowledge', `${gateway.url}/open/large`],
      [...version, '--http2', `${gateway.url}/open/x`],
      [...version, '--http2-prior-knowledge', '-d', 'hello', `${gateway.url}/open/x`],
    ]
    const outputs = []
    for (const args of runs) outputs.push((await runTool('curl', args)).output)
    assert.deepEqual(outputs, ['2', '1.1', '2', '1.1', '2'])
  })

  it('cancels the upstream and records 499 when the client resets a stream', async () => {
    const stream = session.request({ ':path': '/open/wait/cancelled', 'x-request-id': 'cancelled-1' })
    await until(() => waiting.get('/open/wait/cancelled'))
    stream.close(constants.NGHTTP2_CANCEL)
    await until(() => (gone.includes('/open/wait/cancelled') ? true : undefined))
    const [, response] = await gateway.pair('cancelled-1')
    assert.equal(response.statusCode, 499)
  })

  it('resets the stream of an unread response by an error, so that no client takes it for complete', async () => {
    const idle = connect(gateway.url)
    const stream = idle.request({ ':path': '/brief/large', 'x-request-id': 'not-taken-1' })
    stream.once('data', () => stream.pause())
    // For CANCEL and NO_ERROR Node would emit no error.
    await assert.rejects(once(stream, 'close'), /NGHTTP2_ENHANCE_YOUR_CALM/)
    idle.close()
    assert.equal((await gateway.pair('not-taken-1'))[1].statusCode, 408)
  })

  it('gives each stream beyond the allowed number a 503 with the usual headers and both records', async () => {
    // This client sends before it has read how many streams it may open.
    const hasty = connect(gateway.url, { peerMaxConcurrentStreams: 1000 })
    const path = '/open/wait/many'
    const ids = Array.from({ length: 130 }, (_, at) => `many-${at}`)
    const all = ids.map((id) => answered(hasty.request({ ':path': path, 'x-request-id': id })))
    // These may end without a response when their session is destroyed.
    for (const one of all.slice(0, 100)) one.catch(() => {})
    const refused = await Promise.all(all.slice(100))
    for (const { status, headers, body } of refused) {
      assert.deepEqual([status, JSON.parse(body).code], [503, 'overloaded'])
      for (const [name, value] of MANDATORY_HEADERS) assert.equal(headers[name.toLowerCase()], value)
      assert.equal(headers['retry-after'], '1')
    }
    for (const id of ids.slice(100)) {
      const [request, response] = await gateway.pair(id)
      assert.deepEqual([request.path, response.statusCode], [path, 503])
    }
    hasty.destroy()
    for (const id of ids.slice(0, 100)) assert.equal((await gateway.pair(id))[1].statusCode, 499)
  })

  it('counts a request that is reset before its turn, or records it with both records', async () => {
    const hasty = connect(gateway.url)
    await once(hasty, 'remoteSettings')
    for (let at = 0; at < 5; at++) {
      const stream = hasty.request({ ':path': '/open/wait/taken-back', 'x-request-id': `back-${at}` })
      stream.on('error', () => {})
      stream.close(constants.NGHTTP2_CANCEL)
    }
    const recorded = () => gateway.audit().filter(({ requestId }) => /^back-/.test(String(requestId)))
    await until(async () => {
      const counted = await gateway.metric('gateway_requests_abandoned_total')
      return counted + recorded().length / 2 === 5 ? true : undefined
    })
    assert.deepEqual(unpaired(recorded()), [])
    hasty.close()
  })

  it('finishes its streams after GOAWAY when the gateway stops', async () => {
    const goAway = once(session, 'goaway')
    const response = answered(session.request({ ':path': '/open/wait/drained' }))
    const release = await until(() => waiting.get('/open/wait/drained'))
    const ended = gateway.end()
    assert.equal((await goAway)[0], constants.NGHTTP2_NO_ERROR)
    release()
    const { status, body } = await response
    assert.deepEqual([status, body], [200, 'at last'])
    assert.equal(await ended, 0)
  })
})
