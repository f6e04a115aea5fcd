import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { type Call, call, type ReceivedResponse } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { type SeenRequest, startUpstream, type TestUpstream } from './test-upstream.ts'
import { openWire, type Wire } from './wire.ts'

const INSIDE = '10.1.2.3'
const OUTSIDE = '203.0.113.9'
const SECRET = `whsec_${createHash('sha256').update('acme').digest('base64')}`
const APP = 'https://app.example'

/** The headers of the service. The gateway must replace some of them. */
const SERVICE_HEADERS = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Private-Network': 'true',
  'X-Frame-Options': 'SAMEORIGIN',
  'Strict-Transport-Security': 'max-age=0',
  'Referrer-Policy': 'unsafe-url',
  'Content-Security-Policy': "default-src 'self'",
  Vary: 'Accept-Encoding',
}

const ROUTES = [
  { path: '/*', auth: ['none'] },
  { path: '/inside/*', auth: ['none'], addresses: { allow: ['10.0.0.0/8'], deny: ['10.9.9.9'] } },
  {
    path: '/cors/*',
    methods: ['GET', 'POST'],
    auth: ['bearer'],
    cors: { origins: [APP, 'https://*.app.example', 'http://localhost:*'], credentials: true },
  },
  { path: '/two/*', methods: ['GET', 'OPTIONS'], auth: ['none'] },
  { path: '/two/*', methods: ['POST'], auth: ['bearer'], cors: { origins: [APP] } },
  { path: '/public/*', auth: ['none'], cors: { origins: ['*'], exposedHeaders: ['ETag'] } },
  {
    path: '/closed/*',
    auth: ['bearer'],
    maintenance: { purpose: 'Back at 06:00 UTC', retryAfterSeconds: 3600, passes: ['10.0.0.0/8'] },
  },
  { path: '/shadow/*', auth: ['bearer', 'hmac'], scopes: ['transfers:write'], mode: 'shadow' },
  { path: '/enforced/*', auth: ['bearer', 'hmac'] },
  { path: '/npm/*', auth: ['none'], encodedSlashes: true, pathParameters: true },
  { path: '/npm/-/admin/*', auth: ['bearer'], encodedSlashes: true },
  { path: '/npm/limited', auth: ['none'], encodedSlashes: true },
  { path: '/names/*', auth: ['none'], underscoreNames: true },
  {
    path: '/headers/*',
    auth: ['none'],
    responseHeaders: {
      contentSecurityPolicy: "frame-ancestors 'none'",
      crossOriginResourcePolicy: 'same-origin',
    },
  },
]

describe('the policy of a route', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const seen: SeenRequest[] = []
  const tunnels: Duplex[] = []
  const wires: Wire[] = []

  const configOf = (routes: readonly object[], more: object = {}) => ({
    upstream: upstream.url,
    trustedProxies: ['127.0.0.1'],
    addresses: { deny: ['192.0.2.0/24'] },
    maxTunnels: 4,
    authThrottle: { failures: 3, window: '1m' },
    responseHeaders: {
      strictTransportSecurity: { maxAgeSeconds: 63_072_000, preload: true },
      referrerPolicy: 'no-referrer',
    },
    routes,
    ...more,
  })
  before(async () => {
    upstream = await startUpstream((req, res) => {
      const { method = '', url = '', headers, rawHeaders } = req
      req.resume().on('end', () => {
        seen.push({ method, url, headers, rawHeaders, body: '' })
        res.writeHead(200, SERVICE_HEADERS).end('served')
      })
    })
    upstream.server.on('upgrade', (req, socket: Duplex) => {
      const key = `${req.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`
      const accept = createHash('sha1').update(key).digest('base64')
      tunnels.push(socket.on('error', () => {}).on('end', () => socket.end()))
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
      )
    })
    gateway = await startGateway({
      env: { ACME: SECRET },
      config: configOf(ROUTES),
      clients: [{ id: 'acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'ACME' }] } }],
      limits: [{ path: '/npm/limited', limit: 1, window: '1h', purpose: 'tests' }],
    })
  })
  after(async () => {
    for (const { socket } of wires) socket.destroy()
    await gateway.end()
    upstream.close()
  })

  const ask = (path: string, { headers, ...rest }: Call = {}, from = OUTSIDE): Promise<ReceivedResponse> =>
    call(gateway.url + path, { ...rest, headers: { 'x-forwarded-for': from, ...headers } })
  /** Status and, of a refusal, its code. */
  const outcome = async (path: string, options: Call = {}, from = OUTSIDE) => {
    const response = await ask(path, options, from)
    return response.status < 400 ? response.status : `${response.status} ${response.json().code}`
  }
  const bearer = async (scope: string) => ({
    authorization: `Bearer ${await upstream.issuer.token({ scope })}`,
  })

  describe('on addresses', () => {
    it('refuses addresses that the route does not allow, and addresses that it denies', async () => {
      assert.equal(await outcome('/inside/a', {}, INSIDE), 200)
      assert.equal(await outcome('/inside/a', {}, '::ffff:a01:203'), 200)
      assert.equal(await outcome('/inside/a'), '403 address_refused')
      assert.equal(await outcome('/inside/a', {}, '10.9.9.9'), '403 address_refused')
      assert.equal(await outcome('/inside/a', {}, '2001:db8::1'), '403 address_refused')
      assert.equal(await outcome('/inside/a', {}, `${INSIDE}, ${OUTSIDE}`), '403 address_refused')
    })

    it('refuses addresses that gateway.json denies, on every path, with records, headers and a metric', async () => {
      for (const path of ['/a', '/inside/a', '/a%00']) {
        assert.equal(await outcome(path, {}, '192.0.2.7'), '403 address_refused', path)
      }
      const response = await ask('/deny', {}, '::ffff:192.0.2.7')
      assert.equal(response.headers['x-frame-options'], 'DENY')
      const [request, end] = await gateway.pair(String(response.headers['x-request-id']))
      assert.deepEqual([request.path, request.ip, end.statusCode], ['/deny', '192.0.2.7', 403])
      assert.ok((await gateway.metric('gateway_refusals_total{code="address_refused"}')) >= 4)
    })
  })

  describe('on CORS', () => {
    const preflight = (origin: string, method = 'POST'): Call => ({
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': method,
        'access-control-request-headers': 'authorization',
      },
    })

    it('answers a preflight itself, before authentication, with a pair of records', async () => {
      const before = seen.length
      for (const origin of [APP, 'https://a.b.app.example', 'http://localhost:5173', 'http://localhost']) {
        const response = await ask('/cors/a', preflight(origin))
        const { headers } = response
        assert.deepEqual([response.status, response.body], [204, ''])
        assert.equal(headers['access-control-allow-origin'], origin)
        assert.equal(headers['access-control-allow-credentials'], 'true')
        assert.equal(headers['access-control-allow-methods'], 'GET, HEAD, POST')
        assert.match(String(headers['access-control-allow-headers']), /Authorization/)
        assert.equal(headers['access-control-max-age'], '600')
        assert.match(String(headers.vary), /Access-Control-Request-Headers, Origin$/)
        assert.equal(headers['x-content-type-options'], 'nosniff')
        const [request, end] = await gateway.pair(String(headers['x-request-id']))
        assert.deepEqual([request.method, request.path, end.statusCode], ['OPTIONS', '/cors/a', 204])
      }
      assert.equal(seen.length, before)
    })

    it('logs why a browser refuses: an origin that is not allowed, or a header', async () => {
      const logged = (id: unknown) => gateway.process.line(({ requestId }) => requestId === id)
      const evil = await ask('/cors/a', preflight('https://evil.example'))
      const refused = await logged(evil.headers['x-request-id'])
      assert.deepEqual([refused.level, refused.msg, refused.code], [30, 'refused', 'origin_not_allowed'])
      assert.match(
        String(refused.cause),
        new RegExp(`^origin "https://evil.example" is not one of "cors.origins": ${APP}, https://\\*`),
      )
      const asking = preflight(APP)
      const headers = { ...asking.headers, 'access-control-request-headers': 'authorization,x-mine' }
      const answered = await ask('/cors/a', { ...asking, headers })
      assert.equal(answered.status, 204)
      const lacking = await logged(answered.headers['x-request-id'])
      assert.deepEqual(
        [lacking.msg, lacking.route, lacking.cause],
        [
          'a browser refuses the request or its response',
          '/cors/*',
          `"cors.headers" lacks "x-mine", which a page of "${APP}" wants`,
        ],
      )
      const read = await ask('/cors/a', {
        headers: { ...preflight(APP).headers, origin: 'https://evil.example' },
      })
      const unread = await gateway.process.line(
        ({ requestId, msg }) =>
          requestId === read.headers['x-request-id'] &&
          msg === 'a browser refuses the request or its response',
      )
      assert.match(String(unread.cause), /^origin "https:\/\/evil.example" is not one of/)
    })

    it('refuses a preflight from another origin, or for a method that no row has', async () => {
      for (const origin of [
        'https://evil.example',
        'https://app.example.evil.example',
        'null',
        `${APP}:8443`,
        'https://xapp.example',
      ]) {
        const response = await ask('/cors/a', preflight(origin))
        assert.deepEqual([response.status, response.json().code], [403, 'origin_not_allowed'], origin)
        assert.equal(response.headers['access-control-allow-origin'], undefined)
      }
      assert.equal(await outcome('/cors/a', preflight(APP, 'DELETE')), '405 method_not_allowed')
      assert.equal(
        await outcome('/cors/a', { method: 'OPTIONS', headers: { origin: APP } }),
        '405 method_not_allowed',
      )
    })

    it('answers the preflight of a row even if another row of the path has OPTIONS', async () => {
      const before = seen.length
      const response = await ask('/two/a', preflight(APP))
      assert.deepEqual([response.status, response.headers['access-control-allow-origin']], [204, APP])
      assert.equal(seen.length, before)
      const plain = await ask('/two/a', { method: 'OPTIONS' })
      assert.deepEqual([plain.status, plain.body], [200, 'served'])
    })

    it('lets scripts of the origin read responses and refusals, whatever the service allows', async () => {
      const headers = { origin: APP, ...(await bearer('a')) }
      const served = await ask('/cors/a', { headers })
      const refused = await ask('/cors/a', { headers: { origin: APP } })
      assert.deepEqual([served.status, refused.status], [200, 401])
      for (const response of [served, refused]) {
        assert.equal(response.headers['access-control-allow-origin'], APP)
        assert.match(String(response.headers['access-control-expose-headers']), /RateLimit.*X-Request-ID/)
        assert.match(String(response.headers.vary), /Origin$/)
      }
      assert.equal(served.headers['access-control-allow-private-network'], undefined)
      const other = await ask('/cors/a', { headers: { ...headers, origin: 'https://evil.example' } })
      assert.deepEqual([other.status, other.headers['access-control-allow-origin']], [200, undefined])
      assert.match(String(other.headers.vary), /Accept-Encoding, Origin/)
    })

    it('sends "*" for a public route, and leaves a route without cors to the service', async () => {
      const open = await ask('/public/a', { headers: { origin: 'null' } })
      assert.equal(open.headers['access-control-allow-origin'], '*')
      assert.equal(open.headers['access-control-allow-credentials'], undefined)
      assert.equal(open.headers['access-control-expose-headers'], 'ETag')
      assert.equal((await ask('/public/a', preflight('https://x.example'))).status, 204)
      const services = await ask('/a', preflight('https://x.example'))
      assert.deepEqual([services.status, services.body], [200, 'served'])
      assert.equal(services.headers['access-control-allow-private-network'], 'true')
    })
  })

  describe('on maintenance', () => {
    it('closes a route before authentication, says the purpose, and lets the named addresses pass', async () => {
      const response = await ask('/closed/a')
      assert.equal(response.status, 503)
      assert.equal(response.headers['retry-after'], '3600')
      const { code, detail } = response.json()
      assert.deepEqual([code, detail], ['maintenance', 'Back at 06:00 UTC'])
      assert.equal(await outcome('/closed/a', {}, INSIDE), '401 missing_token')
      assert.equal(await outcome('/closed/a', { headers: await bearer('a') }, INSIDE), 200)
      const [, end] = await gateway.pair(String(response.headers['x-request-id']))
      assert.equal(end.statusCode, 503)
    })
  })

  describe('on shadow mode', () => {
    const last = () => seen.at(-1)?.headers ?? {}
    const claims = () => Object.keys(last()).filter((name) => name.startsWith('x-auth-'))

    it('lets callers through that it would refuse, names none to the service, and counts and logs them', async () => {
      const bound = { authorization: `Bearer ${await upstream.issuer.token({ cnf: { jkt: 'x' } })}` }
      const cases: [string, Record<string, string>][] = [
        ['missing_token', {}],
        ['invalid_token', { authorization: 'Bearer x.y.z' }],
        ['invalid_credentials', { authorization: 'Bearer' }],
        ['invalid_signature', { 'x-api-key': 'nobody' }],
        ['invalid_token', bound],
      ]
      for (const [index, [code, headers]] of cases.entries()) {
        const sample = `gateway_shadow_refusals_total{route="/shadow/*",code="${code}"}`
        const before = await gateway.metric(sample)
        const response = await ask('/shadow/a', { headers }, `198.51.100.${100 + index}`)
        assert.deepEqual([response.status, response.body], [200, 'served'], code)
        assert.deepEqual(claims(), [], code)
        assert.equal(last().authorization, headers.authorization)
        assert.equal(await gateway.metric(sample), before + 1, code)
        const [request] = await gateway.pair(String(response.headers['x-request-id']))
        assert.equal(request.userId, undefined)
      }
      const line = await gateway.process.line(({ msg }) => msg === 'would be refused')
      assert.equal(line.route, '/shadow/*')
    })

    it('names a proved caller to the service with the scopes of the token, even if they are too few', async () => {
      assert.equal(await outcome('/shadow/a', { headers: await bearer('accounts:read') }), 200)
      assert.deepEqual([last()['x-auth-subject'], last()['x-auth-scope']], ['user-1', 'accounts:read'])
      const sample = 'gateway_shadow_refusals_total{route="/shadow/*",code="insufficient_scope"}'
      assert.equal(await gateway.metric(sample), 1)
    })

    it('names no caller to the service for a replayed webhook with a good signature', async () => {
      const at = new Date()
      const headers = {
        'x-api-key': 'key_acme',
        'webhook-id': 'msg_1',
        'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
        'webhook-signature': new Webhook(SECRET).sign('msg_1', at, '{}'),
      }
      assert.equal(await outcome('/shadow/hook', { method: 'POST', headers, body: '{}' }), 200)
      assert.equal(last()['x-auth-client'], 'acme')
      assert.equal(await outcome('/shadow/hook', { method: 'POST', headers, body: '{}' }), 200)
      assert.deepEqual(claims(), [])
    })

    it('checks as few wrong credentials of an address as other routes, but counts them apart', async () => {
      const address = '198.51.100.1'
      const bad = { headers: { authorization: 'Bearer x.y.z' } }
      const good = { headers: await bearer('transfers:write') }
      for (let i = 0; i < 3; i++) {
        assert.equal(await outcome('/shadow/a', good, address), 200)
        assert.equal(last()['x-auth-subject'], 'user-1')
        assert.equal(await outcome('/shadow/a', bad, address), 200)
      }
      const unknown = { headers: await bearer('transfers:write') }
      assert.equal(await outcome('/shadow/a', unknown, address), 200)
      assert.deepEqual(claims(), [])
      const sample = 'gateway_shadow_refusals_total{route="/shadow/*",code="too_many_failures"}'
      assert.equal(await gateway.metric(sample), 1)
      assert.equal(await outcome('/enforced/a', good, address), 200)
      for (let i = 0; i < 3; i++)
        assert.equal(await outcome('/enforced/a', bad, address), '401 invalid_token')
      assert.equal(await outcome('/enforced/a', unknown, address), '429 too_many_failures')
      assert.equal(await outcome('/enforced/a', good, address), 200, 'verified before: no guess')
    })

    it('does not apply to refusals that are not about the caller', async () => {
      assert.equal(await outcome('/shadow/a%00'), '400 invalid_target')
      assert.equal(await outcome('/shadow/a', { headers: { x_auth_subject: 'root' } }), '400 invalid_header')
      const forged = { headers: { 'X-Auth-Subject': 'root' } }
      assert.equal(await outcome('/shadow/a', forged), 200)
      assert.deepEqual(claims(), [])
    })
  })

  describe('on paths and names', () => {
    const forwarded = async (path: string) => {
      assert.equal(await outcome(path), 200, path)
      return seen.at(-1)?.url
    }

    it('forwards encoded slashes and parameters only on a route that allows them', async () => {
      assert.equal(await forwarded('/npm/@scope%2Fname'), '/npm/@scope%2Fname')
      assert.equal(await forwarded('/npm/@scope%2fname/-/x.tgz?a=%2f'), '/npm/@scope%2Fname/-/x.tgz?a=%2f')
      assert.equal(await forwarded('/npm/a;v=1/b;c'), '/npm/a;v=1/b;c')
      for (const path of ['/a%2Fb', '/a;v=1', '/inside;x/a', '/npm/-/admin/a;b', '/names/a%2Fb'])
        assert.equal(await outcome(path, { headers: await bearer('a') }, INSIDE), '400 invalid_target', path)
    })

    it('refuses a path that a service could read as a path of another row or limit', async () => {
      const elsewhere = [
        '/npm/-%2Fadmin/x',
        '/npm/-%2FAdmin/x',
        '/npm/-;a/admin/x',
        '/npm/;a/-/admin/x',
        '/npm/-;a=%2Fadmin/x',
        '/npm/..%2Finside/a',
        '/npm/x%2F..%2F..%2Finside',
        '/npm/..;/inside/a',
        '/npm/%2e%2e;x/inside/a',
        '/npm/.%2Fa',
        '/npm/limited;a',
        '/npm%2Flimited',
        '/npm%2F-/admin/x',
        '/inside%2Fa',
      ]
      for (const path of elsewhere) assert.equal(await outcome(path), '400 invalid_target', path)
      assert.equal(await outcome('/npm/a%5C..%5Cb'), '400 invalid_target')
      assert.equal(await outcome('/npm/a%3Bb'), '400 invalid_target')
      assert.equal(await outcome('/npm/limited'), 200)
      assert.equal(await outcome('/npm/limited'), '429 limit_exceeded')
    })

    it('lets header names with underscores through on a route that allows them, but never a protected name', async () => {
      const headers = {
        My_Tenant: 'blue',
        X_Auth_Subject: 'root',
        'X-Auth_Client': 'root',
        X_Gateway_Secret: 's',
      }
      assert.equal(await outcome('/names/a', { headers }), 200)
      const got = Object.keys(seen.at(-1)?.headers ?? {})
      assert.deepEqual(
        got.filter((name) => name.includes('_')),
        ['my_tenant'],
      )
      assert.equal(await outcome('/a', { headers: { My_Tenant: 'blue' } }), '400 invalid_header')
      assert.equal(await outcome('/names/a', { headers: { 'My.Tenant': 'blue' } }), '400 invalid_header')
      assert.equal(
        await outcome('/names/a', { headers: { Content_Length: '5', Transfer_Encoding: 'chunked' } }),
        200,
      )
      assert.equal(seen.at(-1)?.headers.transfer_encoding, undefined)
    })
  })

  describe('on response headers', () => {
    const raw = ({ rawHeaders }: ReceivedResponse, name: string) =>
      rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name)

    it('adds headers and makes mandatory ones stronger, but never weaker', async () => {
      for (const path of ['/headers/a', '/a', '/headers/a%00']) {
        const response = await ask(path)
        assert.deepEqual(raw(response, 'strict-transport-security'), [
          'max-age=63072000; includeSubDomains; preload',
        ])
        assert.deepEqual(raw(response, 'x-frame-options'), ['DENY'])
        assert.deepEqual(raw(response, 'cache-control'), ['no-store'])
        assert.deepEqual(raw(response, 'referrer-policy'), ['no-referrer'])
      }
      const own = await ask('/headers/a')
      assert.deepEqual(raw(own, 'content-security-policy'), ["default-src 'self'", "frame-ancestors 'none'"])
      assert.deepEqual(raw(own, 'cross-origin-resource-policy'), ['same-origin'])
      assert.deepEqual(raw(await ask('/a'), 'content-security-policy'), ["default-src 'self'"])
    })
  })

  describe('on tunnels', () => {
    const handshake = (from: string) =>
      `GET /socket HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${from}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`
    const open = async (from: string) => {
      const wire = await openWire(gateway.port)
      wires.push(wire)
      wire.send(handshake(from))
      return Number((await wire.has(/HTTP\/1\.1 \d{3} /)).slice(9, 12))
    }

    it('leaves room for others, however many tunnels one address opens', async () => {
      assert.deepEqual([await open(OUTSIDE), await open(OUTSIDE), await open(OUTSIDE)], [101, 101, 101])
      assert.equal(await open(OUTSIDE), 503)
      assert.equal(await open(INSIDE), 101)
      assert.equal(await open('10.7.7.7'), 503)
      wires.shift()?.socket.destroy()
      await until(async () => (await gateway.metric('gateway_tunnels_open')) === 3 || undefined)
      assert.equal(await open('10.7.7.7'), 101)
    })
  })

  describe('in an edit of gateway.json', () => {
    const preflight = (path: string): Call => ({
      method: 'OPTIONS',
      headers: { origin: `https://new${path}`, 'access-control-request-method': 'GET' },
    })

    it('is in force at once: maintenance begins and ends, and another pattern of origins applies', async () => {
      const file = join(gateway.dir, 'gateway.json')
      const edit = (routes: readonly object[], more?: object) =>
        writeFileSync(file, JSON.stringify(configOf(routes, more)))
      const becomes = (expected: number | string, look: () => Promise<number | string>) =>
        until(async () => (await look()) === expected || undefined)
      const cors = (host: string) => [
        ...ROUTES,
        { path: '/new', auth: ['none'], cors: { origins: [`https://*.${host}.example`] } },
      ]
      const asked = (host: string) => outcome('/new', preflight(`.${host}.example`))
      edit(cors('one'), { maintenance: { purpose: 'Moving house' } })
      await becomes('503 maintenance', () => outcome('/a'))
      assert.equal((await ask('/closed/a')).json().detail, 'Back at 06:00 UTC')
      assert.equal(await asked('one'), 204)
      assert.equal(await outcome('/unrouted%00'), '400 invalid_target')
      edit(cors('two'))
      await becomes(200, () => outcome('/a'))
      assert.deepEqual([await asked('two'), await asked('one')], [204, '403 origin_not_allowed'])
      edit(cors('one'))
      await becomes(204, () => asked('one'))
    })
  })
})
