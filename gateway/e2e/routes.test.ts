import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { call, type ReceivedResponse } from './client.ts'
import { commonGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

describe('routes', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const hang = new Set<string>(['/quick', '/slow'])

  before(async () => {
    upstream = await startUpstream((req, res) => {
      if (hang.has(req.url ?? '')) setTimeout(() => res.end('late'), 600).unref()
      else req.resume().on('end', () => res.end(`${req.method} ${req.url}`))
    })
    gateway = await commonGateway({
      config: {
        upstream: upstream.url,
        maxBodyBytes: 100,
        routes: [
          { path: '/api/users', methods: ['GET'], auth: ['none'] },
          { path: '/api/users', methods: ['POST', 'PUT'], auth: ['bearer'] },
          {
            path: '/api/users/*',
            methods: ['GET', 'DELETE'],
            auth: ['bearer'],
            scopes: ['users:admin', 'users:read'],
          },
          { path: '/api/users/me', auth: ['none', 'bearer'] },
          { path: '/api/*', auth: ['none'], maxBodyBytes: 10 },
          { path: '/quick', auth: ['none'], timeoutMs: 200 },
          { path: '/slow', auth: ['none'] },
        ],
      },
    })
  })
  after(async () => {
    upstream.close()
  })

  const ask = (
    line: string,
    options: { headers?: Record<string, string>; body?: string } = {},
  ): Promise<ReceivedResponse> => {
    const [method = '', path = ''] = line.split(' ')
    return call(gateway.url + path, { method, ...options })
  }

  const cases: [string, number][] = [
    ['GET /api/users', 200],
    ['HEAD /api/users', 200],
    ['POST /api/users', 401],
    ['GET /api/users/7', 401],
    ['GET /api/users/', 401],
    ['GET /api/users/me', 200],
    ['PATCH /api/users/me', 200],
    ['GET /api/users/me/', 404],
    ['GET /api/Users/me', 404],
    ['GET /API/users', 404],
    ['GET /api/usersX', 200],
    ['GET /api/other/deep/path', 200],
    ['GET /api/', 200],
    ['GET /api', 404],
    ['GET /', 404],
    ['GET /other', 404],
    ['GET /api/*', 200],
    ['GET /slow/', 404],
  ]
  for (const [line, status] of cases) {
    it(`give ${line} status ${status}: the most specific row wins, and without a row it is 404`, async () => {
      const response = await ask(line)
      assert.equal(response.status, status)
      if (status === 200 && !line.startsWith('HEAD')) assert.equal(response.body, line)
      if (status === 404) assert.equal(response.json().code, 'not_found')
    })
  }

  it('name in Allow every method of the path, HEAD with GET', async () => {
    const both = await ask('DELETE /api/users')
    assert.equal(both.status, 405)
    assert.equal(both.headers.allow, 'GET, HEAD, POST, PUT')
    assert.equal(both.json().code, 'method_not_allowed')
    const below = await ask('POST /api/users/7')
    assert.equal(below.status, 405)
    assert.equal(below.headers.allow, 'GET, HEAD, DELETE')
  })

  it('ask for every one of their scopes', async () => {
    const withScope = async (scope: string) => ({
      headers: { authorization: `Bearer ${await upstream.issuer.token({ scope })}` },
    })
    assert.equal((await ask('GET /api/users/7', await withScope('users:admin users:read more'))).status, 200)
    for (const scope of ['users:admin', 'users:read', 'users:adminx users:read']) {
      const response = await ask('GET /api/users/7', await withScope(scope))
      assert.equal(response.status, 403, scope)
      assert.match(
        String(response.headers['www-authenticate']),
        /error="insufficient_scope".*scope="users:admin users:read"/,
      )
    }
  })

  it('without authentication still refuse a bad token, and forward a good one', async () => {
    assert.equal((await ask('GET /api/users/me', { headers: { authorization: 'Bearer x.y.z' } })).status, 401)
    const authorization = `Bearer ${await upstream.issuer.token()}`
    assert.equal((await ask('GET /api/users/me', { headers: { authorization } })).status, 200)
  })

  it('limit the body, each by its own bound or the common one', async () => {
    const body = (bytes: number) => ({ body: 'x'.repeat(bytes) })
    assert.equal((await ask('POST /api/x', body(10))).status, 200)
    assert.equal((await ask('POST /api/x', body(11))).status, 413)
    assert.equal((await ask('POST /api/users/me', body(100))).status, 200)
    assert.equal((await ask('POST /api/users/me', body(101))).status, 413)
  })

  it('limit the time, each by its own bound or the common one', async () => {
    const response = await ask('GET /quick')
    assert.equal(response.status, 504)
    assert.equal(response.json().code, 'upstream_timeout')
    assert.equal((await ask('GET /slow')).status, 200)
  })

  it('are named in metrics by their row, not by the path of the request', async () => {
    const sample = 'gateway_http_requests_total{route="/api/*",method="GET",status="200"}'
    const before = await gateway.metric(sample)
    await ask('GET /api/secret-in-path')
    assert.equal(await gateway.metric(sample), before + 1)
    assert.ok(!(await call(`${gateway.adminUrl}/metrics`)).body.includes('secret-in-path'))
  })
})

describe('one row for everything', () => {
  it('puts the gateway before any service', async () => {
    const upstream = await startUpstream()
    const gateway = await commonGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
    })
    for (const path of ['/', '/a', '/A/b/', '/a?b'])
      assert.equal((await call(gateway.url + path)).json().url, path)
    upstream.close()
  })
})
