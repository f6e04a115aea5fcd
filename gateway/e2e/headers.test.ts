import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { calculateJwkThumbprint, exportJWK, generateKeyPair } from 'jose'
import type { CryptoKeyPair } from 'openid-client'
import { Webhook } from 'standardwebhooks'
import { ISSUER } from '../testing/test-issuer.ts'
import { call, sendBytes, statusOf } from './client.ts'
import { ath, proof } from './proofs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, secureOptions, sendSecureBytes, type TlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const MANDATORY: readonly [string, string | RegExp][] = [
  ['strict-transport-security', 'max-age=31536000; includeSubDomains'],
  ['x-content-type-options', 'nosniff'],
  ['x-frame-options', 'DENY'],
  ['x-xss-protection', '1; mode=block'],
  ['cache-control', 'no-store'],
  ['x-request-id', /^[A-Za-z0-9._:/+=@-]{1,128}$/],
]

interface Head {
  readonly status: number
  /** Lower-case names, in order. */
  readonly headers: readonly [string, string][]
}

function headOf(answer: string): Head {
  const [head = ''] = answer.split('\r\n\r\n')
  const [first, ...lines] = head.split('\r\n')
  return {
    status: Number(first?.split(' ')[1]),
    headers: lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  }
}

/** Asserts the six headers, each exactly once, and gives the request id. */
function assertMandatory(head: Head): string {
  for (const [name, value] of MANDATORY) {
    const values = head.headers.filter(([given]) => given === name).map(([, given]) => given)
    assert.equal(values.length, 1, `${name} stands ${values.length} times on the ${head.status}`)
    if (typeof value === 'string') assert.equal(values[0], value)
    else assert.match(values[0] as string, value)
  }
  for (const name of ['server', 'x-powered-by'])
    assert.ok(!head.headers.some(([given]) => given === name), name)
  return head.headers.find(([name]) => name === 'x-request-id')?.[1] as string
}

/** A request and the response that it must get. `path` and `method` are from the audit records. */
interface Case {
  readonly title: string
  readonly status: number
  readonly bytes: string | (() => Promise<string>)
  readonly method: string
  readonly path: string
  readonly route?: string
  readonly code?: string
  /** Sent over TLS, with a client certificate of no known client. */
  readonly secure?: true
}

const SECRET = `whsec_${Buffer.from('a webhook secret of 32 bytes, ok').toString('base64')}`
const ACME = { id: 'acme', scopes: [], hmac: { keyId: 'key_acme', secrets: [{ env: 'ACME_SECRET' }] } }

/** The head of a webhook without a body. A second one with the same id is a replay. */
function webhook(id: string, secret = SECRET): string {
  const now = new Date()
  const seconds = Math.floor(now.getTime() / 1000)
  const signature = new Webhook(secret).sign(id, now, '')
  return `POST /hook HTTP/1.1\r\nX-API-Key: key_acme\r\nWebhook-Id: ${id}\r\nWebhook-Timestamp: ${seconds}\r\nWebhook-Signature: ${signature}\r\n${CLOSE}`
}

const CLOSE = 'Host: gateway\r\nConnection: close\r\n\r\n'

describe('every response', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let tls: TlsSetup

  before(async () => {
    tls = await makeTlsSetup()
    upstream = await startUpstream((req, res) => {
      const status = Number(req.url?.split('/').at(-1))
      if (req.url === '/open/never') return
      if (req.url === '/open/slow') return void req.on('end', () => res.end('whole')).resume()
      if (req.url === '/open/broken-head') return void res.socket?.end('HTTP/1.1 200 OK\r\nContent-Le')
      if (req.url === '/open/no-http') return void res.socket?.end('SSH-2.0-OpenSSH_9.2\r\n')
      res.writeHead(Number.isNaN(status) ? 200 : status, {
        server: 'leaky/1.0',
        'x-powered-by': 'Leak',
        'cache-control': 'public, max-age=9',
        'strict-transport-security': 'max-age=0',
        'x-frame-options': 'ALLOWALL',
        'x-request-id': 'theirs',
      })
      res.end(status === 204 || status === 304 || req.method === 'HEAD' ? undefined : 'body')
    })
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        timeouts: { headersMs: 1000, requestHeadersMs: 1000, requestMs: 2000 },
        routes: [
          { path: '/open/*', auth: ['none'], maxBodyBytes: 10 },
          { path: '/limited', methods: ['GET'], auth: ['none'] },
          { path: '/private', methods: ['GET'], auth: ['bearer'] },
          { path: '/scoped', auth: ['bearer'], scopes: ['admin'] },
          { path: '/machine', auth: ['mtls'] },
          { path: '/hook', methods: ['POST'], auth: ['hmac'] },
        ],
        dpop: { nonce: 'required' },
      },
      clients: [ACME],
      env: { ...tls.env, ACME_SECRET: SECRET },
      limits: [{ path: '/limited', limit: 1, window: '1h', purpose: 'tests' }],
    })
    await call(`${gateway.url}/limited`)
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  const token = () => upstream.issuer.token()
  /** A request with a token that is bound to a key. */
  async function boundRequest(prove: (keys: CryptoKeyPair, token: string) => Promise<string>) {
    const keys = await generateKeyPair('ES256', { extractable: true })
    const jkt = await calculateJwkThumbprint(await exportJWK(keys.publicKey))
    const access = await upstream.issuer.token({ cnf: { jkt } })
    return `GET /private HTTP/1.1\r\nAuthorization: DPoP ${access}\r\nDPoP: ${await prove(keys, access)}\r\n${CLOSE}`
  }
  const cases: Case[] = [
    {
      title: 'forwarded',
      status: 200,
      bytes: `GET /open/200 HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/open/200',
      route: '/open/*',
    },
    {
      title: 'to HEAD',
      status: 200,
      bytes: `HEAD /open/200 HTTP/1.1\r\n${CLOSE}`,
      method: 'HEAD',
      path: '/open/200',
      route: '/open/*',
    },
    {
      title: 'to HTTP/1.0',
      status: 200,
      bytes: `GET /open/200 HTTP/1.0\r\n${CLOSE}`,
      method: 'GET',
      path: '/open/200',
      route: '/open/*',
    },
    {
      title: 'with no content',
      status: 204,
      bytes: `GET /open/204 HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/open/204',
      route: '/open/*',
    },
    {
      title: 'not modified',
      status: 304,
      bytes: `GET /open/304 HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/open/304',
      route: '/open/*',
    },
    {
      title: 'with an error of the upstream',
      status: 500,
      bytes: `GET /open/500 HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/open/500',
      route: '/open/*',
    },
    {
      title: 'to an unknown route',
      status: 404,
      bytes: `GET /nothing HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/nothing',
      code: 'not_found',
    },
    {
      title: 'to a method that the route does not have',
      status: 405,
      bytes: `POST /private HTTP/1.1\r\n${CLOSE}`,
      method: 'POST',
      path: '/private',
      code: 'method_not_allowed',
    },
    {
      title: 'to TRACE',
      status: 405,
      bytes: `TRACE /open/x HTTP/1.1\r\n${CLOSE}`,
      method: 'TRACE',
      path: '/open/x',
      code: 'method_not_allowed',
    },
    {
      title: 'to CONNECT',
      status: 405,
      bytes: `CONNECT gateway:443 HTTP/1.1\r\n${CLOSE}`,
      method: 'CONNECT',
      path: '-',
      code: 'method_not_allowed',
    },
    {
      title: 'without a token',
      status: 401,
      bytes: `GET /private HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/private',
      route: '/private',
      code: 'missing_token',
    },
    {
      title: 'to a bad token',
      status: 401,
      bytes: `GET /private HTTP/1.1\r\nAuthorization: Bearer x.y.z\r\n${CLOSE}`,
      method: 'GET',
      path: '/private',
      route: '/private',
      code: 'invalid_token',
    },
    {
      title: 'to a token in the query',
      status: 400,
      bytes: `GET /private?access_token=secret HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/private',
      route: '/private',
      code: 'token_in_query',
    },
    {
      title: 'to a token in the query under an encoded name',
      status: 400,
      bytes: `GET /private?a=b&acc%65ss%5Ftoken=secret HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/private',
      route: '/private',
      code: 'token_in_query',
    },
    {
      title: 'to a malformed Authorization',
      status: 400,
      bytes: `GET /private HTTP/1.1\r\nAuthorization: Bearer\r\n${CLOSE}`,
      method: 'GET',
      path: '/private',
      route: '/private',
      code: 'invalid_credentials',
    },
    {
      title: 'without the scope',
      status: 403,
      bytes: async () => `GET /scoped HTTP/1.1\r\nAuthorization: Bearer ${await token()}\r\n${CLOSE}`,
      method: 'GET',
      path: '/scoped',
      route: '/scoped',
      code: 'insufficient_scope',
    },
    {
      title: 'to a token of a key without its proof',
      status: 401,
      bytes: () => boundRequest(async () => 'x.y.z'),
      method: 'GET',
      path: '/private',
      route: '/private',
      code: 'invalid_dpop_proof',
    },
    {
      title: 'to a proof without a nonce',
      status: 401,
      bytes: () =>
        boundRequest((keys, access) =>
          proof(keys, { htm: 'GET', htu: `${ISSUER}/private`, ath: ath(access) }),
        ),
      method: 'GET',
      path: '/private',
      route: '/private',
      code: 'use_dpop_nonce',
    },
    {
      title: 'without a client certificate',
      status: 401,
      bytes: `GET /machine HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/machine',
      route: '/machine',
      code: 'missing_credentials',
    },
    {
      title: 'to the certificate of no known client',
      status: 401,
      bytes: `GET /machine HTTP/1.1\r\n${CLOSE}`,
      secure: true,
      method: 'GET',
      path: '/machine',
      route: '/machine',
      code: 'invalid_certificate',
    },
    {
      title: 'to a webhook that is not signed',
      status: 401,
      bytes: `POST /hook HTTP/1.1\r\n${CLOSE}`,
      method: 'POST',
      path: '/hook',
      route: '/hook',
      code: 'missing_credentials',
    },
    {
      title: 'to a webhook that is signed wrongly',
      status: 401,
      bytes: async () => webhook('msg_wrong', SECRET.replace('YSB3', 'QSB3')),
      method: 'POST',
      path: '/hook',
      route: '/hook',
      code: 'invalid_signature',
    },
    {
      title: 'to a webhook that came before',
      status: 409,
      bytes: async () => {
        const bytes = webhook('msg_again')
        assert.equal(statusOf(await sendBytes(gateway.port, bytes)), 200)
        return bytes
      },
      method: 'POST',
      path: '/hook',
      route: '/hook',
      code: 'webhook_replayed',
    },
    {
      title: 'over the limit',
      status: 429,
      bytes: `GET /limited HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/limited',
      route: '/limited',
      code: 'limit_exceeded',
    },
    {
      title: 'to a body that is announced too large',
      status: 413,
      bytes: `POST /open/200 HTTP/1.1\r\nContent-Length: 11\r\n${CLOSE}hello world`,
      method: 'POST',
      path: '/open/200',
      route: '/open/*',
      code: 'body_too_large',
    },
    {
      title: 'to a body that becomes too large',
      status: 413,
      bytes: `POST /open/never HTTP/1.1\r\nTransfer-Encoding: chunked\r\n${CLOSE}b\r\nhello world\r\n0\r\n\r\n`,
      method: 'POST',
      path: '/open/never',
      route: '/open/*',
      code: 'body_too_large',
    },
    {
      title: 'to a target that is too long',
      status: 414,
      bytes: `GET /${'a'.repeat(8192)} HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '-',
      code: 'target_too_long',
    },
    {
      title: 'to an unknown expectation',
      status: 417,
      bytes: `GET /open/200 HTTP/1.1\r\nExpect: a-miracle\r\n${CLOSE}`,
      method: 'GET',
      path: '/open/200',
      code: 'expectation_failed',
    },
    {
      title: 'without Host',
      status: 400,
      bytes: 'GET /open/200 HTTP/1.1\r\nConnection: close\r\n\r\n',
      method: 'GET',
      path: '/open/200',
      code: 'invalid_host',
    },
    {
      title: 'to two Hosts',
      status: 400,
      bytes: `GET /open/200 HTTP/1.1\r\nHost: other\r\n${CLOSE}`,
      method: 'GET',
      path: '/open/200',
      code: 'invalid_host',
    },
    {
      title: 'to OPTIONS *, which is good HTTP but has no row',
      status: 404,
      bytes: `OPTIONS * HTTP/1.1\r\n${CLOSE}`,
      method: 'OPTIONS',
      path: '*',
      code: 'not_found',
    },
    {
      title: 'to another method with the asterisk',
      status: 400,
      bytes: `GET * HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '-',
      code: 'invalid_target',
    },
    {
      title: 'to a request line with a bad version',
      status: 400,
      bytes: 'GET /open/200 HTTP/9.9\r\n\r\n',
      method: 'GET',
      path: '-',
      code: 'malformed_request',
    },
    {
      title: 'to garbage',
      status: 400,
      bytes: '\x16\x03\x01\x02\x00garbage\r\n\r\n',
      method: '-',
      path: '-',
      code: 'malformed_request',
    },
    {
      title: 'to a header that cannot be parsed',
      status: 400,
      bytes: 'GET /open/a?secret=1 HTTP/1.1\r\nHost : gateway\r\n\r\n',
      method: 'GET',
      path: '/open/a',
      code: 'malformed_request',
    },
    {
      title: 'to Content-Length with Transfer-Encoding',
      status: 400,
      bytes: `POST /open/200 HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n${CLOSE}0\r\n\r\n`,
      method: 'POST',
      path: '/open/200',
      code: 'invalid_framing',
    },
    {
      title: 'to a malformed chunk',
      status: 400,
      bytes: `POST /open/never HTTP/1.1\r\nTransfer-Encoding: chunked\r\n${CLOSE}zz\r\n`,
      method: 'POST',
      path: '/open/never',
      code: 'malformed_request',
    },
    {
      title: 'to headers of more than 16 KiB',
      status: 431,
      bytes: `GET /open/200 HTTP/1.1\r\nX-Large: ${'a'.repeat(17_000)}\r\n${CLOSE}`,
      method: 'GET',
      path: '/open/200',
      code: 'headers_too_large',
    },
    {
      title: 'to more than 100 headers',
      status: 431,
      bytes: `GET /open/200 HTTP/1.1\r\n${Array.from({ length: 99 }, (_, i) => `x-${i}: 1\r\n`).join('')}${CLOSE}`,
      method: 'GET',
      path: '/open/200',
      code: 'headers_too_large',
    },
    {
      title: 'to headers that do not come',
      status: 408,
      bytes: 'GET /open/200 HTTP/1.1\r\nHost: gateway\r\n',
      method: 'GET',
      path: '/open/200',
      code: 'request_timeout',
    },
    {
      title: 'to a body that does not come',
      status: 408,
      bytes: `POST /open/slow HTTP/1.1\r\nContent-Length: 5\r\n${CLOSE}he`,
      method: 'POST',
      path: '/open/slow',
      route: '/open/*',
      code: 'request_timeout',
    },
    {
      title: 'to a refused upgrade',
      status: 401,
      bytes:
        'GET /private HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      method: 'GET',
      path: '/private',
      route: '/private',
      code: 'missing_token',
    },
    {
      title: 'from an upstream too slow',
      status: 504,
      bytes: `GET /open/never HTTP/1.1\r\n${CLOSE}`,
      method: 'GET',
      path: '/open/never',
      route: '/open/*',
      code: 'upstream_timeout',
    },
    {
      title: 'from an upstream that breaks off its head',
      status: 502,
      bytes: `POST /open/broken-head HTTP/1.1\r\n${CLOSE}`,
      method: 'POST',
      path: '/open/broken-head',
      route: '/open/*',
      code: 'upstream_broken',
    },
    {
      title: 'from an upstream that speaks no HTTP',
      status: 502,
      bytes: `POST /open/no-http HTTP/1.1\r\n${CLOSE}`,
      method: 'POST',
      path: '/open/no-http',
      route: '/open/*',
      code: 'upstream_malformed',
    },
  ]

  for (const expected of cases) {
    it(`${expected.title} (${expected.status}) has its headers, its audit pair and its metric`, async () => {
      const bytes = typeof expected.bytes === 'string' ? expected.bytes : await expected.bytes()
      const sample = `gateway_http_requests_total{route="${expected.route ?? 'none'}",method="${expected.method === '-' ? 'OTHER' : expected.method}",status="${expected.status}"}`
      const refusals = `gateway_refusals_total{code="${expected.code}"}`
      const counted = () => Promise.all([sample, refusals].map((one) => gateway.metric(one)))
      const [before = 0, refusedBefore = 0] = await counted()
      const answer = await (expected.secure === true ? sendAsNobody(bytes) : sendBytes(gateway.port, bytes))
      assert.equal(statusOf(answer), expected.status, answer.slice(0, 600))
      const requestId = assertMandatory(headOf(answer))
      const [request, response] = await gateway.pair(requestId)
      assert.equal(request.type, 'API_REQUEST')
      assert.equal(response.type, 'API_RESPONSE')
      for (const record of [request, response]) {
        assert.equal(record.method, expected.method)
        assert.equal(record.path, expected.path)
        assert.equal(record.timestamp, request.timestamp)
      }
      assert.equal(response.statusCode, expected.status)
      const [after, refusedAfter] = await counted()
      assert.equal(after, before + 1)
      if (expected.code !== undefined) {
        const problem = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)) as Record<string, unknown>
        assert.equal(problem.code, expected.code)
        assert.equal(problem.status, expected.status)
        assert.equal(problem.requestId, requestId)
        assert.match(answer, /\r\ncontent-type: application\/problem\+json\r\n/i)
        assert.equal(/\r\nwww-authenticate: /i.test(answer), expected.status === 401 || challenged(expected))
        assert.equal(refusedAfter, refusedBefore + 1)
      }
    })
  }
  const challenged = ({ code }: Case) =>
    code === 'insufficient_scope' || code === 'token_in_query' || code === 'invalid_credentials'

  async function sendAsNobody(bytes: string): Promise<string> {
    const nobody = await tls.client({ subject: 'CN=nobody' })
    return sendSecureBytes(gateway.tlsPort, secureOptions(tls.ca, nobody), bytes)
  }

  it('for a webhook that cannot be remembered, or after too many bad ones, has its headers too', async () => {
    const full = await startGateway({
      config: {
        upstream: upstream.url,
        routes: [{ path: '/hook', auth: ['hmac'] }],
        authThrottle: { failures: 1 },
      },
      clients: [ACME],
      env: { ACME_SECRET: SECRET, GATEWAY_DATA_DIR: fullMemory(tls.dir) },
    })
    for (const [secret, status, code] of [
      [SECRET, 503, 'webhooks_unavailable'],
      [SECRET.replace('YSB3', 'QSB3'), 401, 'invalid_signature'],
      [SECRET, 429, 'too_many_failures'],
    ] as const) {
      const answer = await sendBytes(full.port, webhook(`msg_${code}`, secret))
      assert.equal(statusOf(answer), status, answer)
      const [, response] = await full.pair(assertMandatory(headOf(answer)))
      assert.equal(response.statusCode, status)
      assert.match(answer, new RegExp(`"code":"${code}"`))
      assert.equal(/\r\nretry-after: [1-9]/i.test(answer), status !== 401)
      assert.equal(await full.metric(`gateway_refusals_total{code="${code}"}`), 1)
    }
    assert.equal(await full.end(), 0)
  })

  it('to garbage after a good request on the same connection has its headers too', async () => {
    const answer = await sendBytes(
      gateway.port,
      'GET /open/200 HTTP/1.1\r\nHost: gateway\r\nX-Request-ID: good-one\r\n\r\nGARBAGE\r\n\r\n',
    )
    const [good, bad] = answer.split(/(?=HTTP\/1\.1 400)/)
    assert.equal(assertMandatory(headOf(good as string)), 'good-one')
    const requestId = assertMandatory(headOf(bad as string))
    const [request] = await gateway.pair(requestId)
    assert.equal(request.path, '-')
    await gateway.pair('good-one')
  })

  it('of the admin listener has its headers too', async () => {
    for (const path of ['/metrics', '/healthz', '/readyz', '/nothing']) {
      const { rawHeaders, status } = await call(gateway.adminUrl + path)
      const headers: [string, string][] = []
      for (let i = 0; i < rawHeaders.length; i += 2) {
        headers.push([(rawHeaders[i] as string).toLowerCase(), rawHeaders[i + 1] as string])
      }
      assertMandatory({ status, headers })
    }
  })

  it('has a request in the trail, and every request a response, at the end', async () => {
    assert.ok((await gateway.metric('gateway_http_requests_in_flight')) === 0)
    const count = (type: string) => gateway.audit().filter((record) => record.type === type).length
    await until(() => (count('API_REQUEST') === count('API_RESPONSE') ? true : undefined))
    assert.ok(count('API_REQUEST') > cases.length)
  })
})

/** Makes a data directory whose memory of webhooks is full. */
function fullMemory(dir: string): string {
  const dataDir = join(dir, 'full')
  mkdirSync(dataDir)
  const seenAtMs = Date.now()
  const lines = Array.from(
    { length: 500_000 },
    (_, i) => `{"message":"${String(i).padStart(43, 'A')}","seenAtMs":${seenAtMs}}\n`,
  )
  writeFileSync(join(dataDir, 'webhooks.ndjson'), lines.join(''))
  return dataDir
}
