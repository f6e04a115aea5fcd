import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { SignJWT } from 'jose'
import { AUDIENCE, createIssuer, ISSUER, type TestIssuer } from '../testing/test-issuer.ts'
import { call } from './client.ts'
import { type GatewayOptions, startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const nowSeconds = () => Math.floor(Date.now() / 1000)

describe('a session', () => {
  let upstream: TestUpstream
  let keys: TestUpstream
  let gateway: TestGateway
  let options: GatewayOptions
  let published: TestIssuer[]
  let outage = false
  let fetches = 0

  before(async () => {
    upstream = await startUpstream((req, res) => {
      const ended = req.headers['x-test-revoke']
      if (typeof ended === 'string') res.setHeader('X-Revoke-Session', ended)
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify(req.headers))
    })
    published = [await createIssuer('first')]
    keys = await startUpstream((_req, res) => {
      fetches++
      if (outage) res.writeHead(500).end()
      else res.end(JSON.stringify({ keys: published.flatMap(({ jwks }) => jwks.keys) }))
    })
    options = {
      config: {
        upstream: upstream.url,
        routes: [
          { path: '/mine', auth: ['bearer'] },
          { path: '/either', auth: ['none', 'bearer'] },
        ],
      },
      env: { GATEWAY_JWKS_URI: `${keys.url}/jwks` },
    }
    gateway = await startGateway(options)
  })
  after(async () => {
    await gateway.end('SIGKILL')
    upstream.close()
    keys.close()
  })
  beforeEach(() => {
    outage = false
  })

  const token = (claims = {}) => (published[0] as TestIssuer).token(claims)
  const ask = (bearer: string | undefined, headers: Record<string, string> = {}, path = '/mine') =>
    call(gateway.url + path, {
      headers: { ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }), ...headers },
    })
  const outcome = (name: string) =>
    gateway.metric(`gateway_auth_decisions_total{method="bearer",outcome="${name}"}`)
  const again = async () => {
    gateway = await startGateway({ ...options, dir: gateway.dir })
  }

  it('with a good token is named to the service by the gateway, whatever the caller claims', async () => {
    const bearer = await token({ sub: 'user-3', sid: 'sid-3', client_id: 'mobile', scope: 'a b' })
    const before = await outcome('accepted')
    const forged = {
      'x-auth-subject': 'root',
      'X-Auth-Scope': 'users:admin',
      'x-auth-client': 'bank',
      'x-auth-method': 'mtls',
      'x-auth-session': 'other',
    }
    for (const path of ['/mine', '/either']) {
      const response = await ask(bearer, forged, path)
      assert.equal(response.status, 200)
      const seen = response.json()
      assert.deepEqual(
        Object.fromEntries(Object.entries(seen).filter(([name]) => name.startsWith('x-auth-'))),
        {
          'x-auth-subject': 'user-3',
          'x-auth-client': 'mobile',
          'x-auth-session': 'sid-3',
          'x-auth-method': 'bearer',
          'x-auth-scope': 'a b',
        },
      )
    }
    const anonymous = (await ask(undefined, forged, '/either')).json()
    assert.deepEqual(
      Object.keys(anonymous).filter((name) => name.startsWith('x-auth-')),
      [],
    )
    assert.equal(await outcome('accepted'), before + 2)
  })

  const other = createIssuer('first')
  const refused: { title: string; make: () => Promise<string>; outcome: string; error?: RegExp }[] = [
    {
      title: 'that has expired',
      make: () => token({ exp: nowSeconds() - 120, iat: nowSeconds() - 600 }),
      outcome: 'expired',
    },
    { title: 'with another signature', make: async () => (await other).token(), outcome: 'invalid' },
    { title: 'for another audience', make: () => token({ aud: `${AUDIENCE}/other` }), outcome: 'invalid' },
    { title: 'of another issuer', make: () => token({ iss: 'https://evil.example' }), outcome: 'invalid' },
    { title: 'that is malformed', make: async () => 'a.b.c', outcome: 'malformed' },
    {
      title: 'that is no access token',
      make: () =>
        new SignJWT({ sub: 'user-1', jti: 'x', exp: nowSeconds() + 60, iat: nowSeconds() })
          .setIssuer(ISSUER)
          .setAudience(AUDIENCE)
          .setProtectedHeader({ alg: 'ES256', typ: 'JWT', kid: 'first' })
          .sign((published[0] as TestIssuer).key),
      outcome: 'invalid',
    },
  ]
  for (const { title, make, outcome: expected } of refused) {
    it(`with a token ${title} is refused, also on a public route`, async () => {
      const bearer = await make()
      const before = await outcome(expected)
      for (const path of ['/mine', '/either']) {
        const response = await ask(bearer, {}, path)
        assert.equal(response.status, 401)
        assert.match(
          String(response.headers['www-authenticate']),
          /^Bearer realm="api", error="invalid_token"/,
        )
        assert.equal(response.json().code, 'invalid_token')
      }
      assert.equal(await outcome(expected), before + 2)
    })
  }

  it('is refused after a response that revokes it, also after kill -9', async () => {
    const [mine, sibling] = [await token({ sid: 'sid-9' }), await token({ sid: 'sid-9', sub: 'user-9' })]
    const stranger = await token({ sid: 'sid-10' })
    assert.equal((await ask(sibling)).status, 200)
    const last = await ask(mine, { 'x-test-revoke': 'sid-9' })
    assert.equal(last.status, 200)
    assert.equal(last.headers['x-revoke-session'], undefined)
    const before = await outcome('revoked')
    for (const bearer of [mine, sibling]) {
      const response = await ask(bearer)
      assert.equal(response.status, 401)
      assert.match(String(response.headers['www-authenticate']), /error="invalid_token".*revoked/)
    }
    assert.equal(await outcome('revoked'), before + 2)
    assert.equal((await ask(stranger)).status, 200)
    await gateway.end('SIGKILL')
    await again()
    assert.equal((await ask(mine)).status, 401)
    assert.equal((await ask(stranger)).status, 200)
  })

  it('is accepted with a newly published key after one fetch, and unknown keys cause no further fetch', async () => {
    const second = await createIssuer('second')
    published.push(second)
    await until(async () => ((await ask(await token())).status === 200 ? true : undefined))
    const before = fetches
    const [rotated, alsoRotated] = [await second.token(), await second.token()]
    const responses = await Promise.all([ask(rotated), ask(alsoRotated), ask(rotated)])
    assert.deepEqual(
      responses.map(({ status }) => status),
      [200, 200, 200],
    )
    assert.equal(fetches, before + 1)
    const unknown = await createIssuer('unknown')
    for (let i = 0; i < 5; i++) assert.equal((await ask(await unknown.token())).status, 401)
    assert.equal(fetches, before + 1)
  })

  it('goes on while the key set cannot be fetched, and gets 503 if it never was', async () => {
    outage = true
    assert.equal((await ask(await token())).status, 200)
    assert.equal((await ask(await (published[1] as TestIssuer).token())).status, 200)
    await gateway.end('SIGKILL')
    await again()
    const bearer = await token()
    const response = await ask(bearer)
    assert.deepEqual([response.status, response.json().code], [503, 'keys_unavailable'])
    assert.ok(Number(response.headers['retry-after']) > 0)
    assert.ok((await outcome('keys_unavailable')) > 0)
    assert.equal((await ask('a.b.c')).status, 401)
    assert.equal((await ask(undefined, {}, '/either')).status, 200)
    outage = false
    await until(async () => ((await ask(bearer)).status === 200 ? true : undefined))
  })
})
