import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { createIssuer } from '../testing/test-issuer.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const INFO = 30
const SECRET = `whsec_${Buffer.from('0123456789abcdefghijklmnop').toString('base64')}`

describe('why a caller was refused', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const presented: string[] = []

  before(async () => {
    upstream = await startUpstream()
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        // Without a throttle, so that every bad credential is verified.
        authThrottle: { failures: 0, window: '1m' },
        routes: [
          { path: '/mine', auth: ['bearer'] },
          { path: '/all', auth: ['bearer'], scopes: ['users:admin'] },
          { path: '/hooks/*', auth: ['hmac'] },
        ],
      },
      clients: [{ id: 'acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'ACME_SECRET' }] } }],
      env: { ACME_SECRET: SECRET },
    })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  const lineOf = (id: unknown) =>
    gateway.process.line(({ msg, requestId }) => msg === 'refused' && requestId === id)
  const refused = async (path: string, headers: Record<string, string>) => {
    presented.push(...Object.values(headers).map((value) => value.replace(/^Bearer /, '')))
    const { status, headers: given } = await call(gateway.url + path, { headers })
    assert.ok(status >= 400)
    return lineOf(given['x-request-id'])
  }
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

  it('is logged at info, with the failed check, the route and the request id', async () => {
    const { token } = upstream.issuer
    const stranger = await createIssuer()
    const nowSeconds = Math.floor(Date.now() / 1000)
    const hook = {
      'x-api-key': 'key_acme',
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(nowSeconds),
      'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}`,
    }
    const cases: [path: string, headers: Record<string, string>, code: string, cause: RegExp][] = [
      ['/mine', {}, 'missing_token', /^no bearer or DPoP token in Authorization$/],
      ['/mine', { authorization: 'Bearer a b' }, 'invalid_credentials', /one scheme and one token/],
      ['/mine', bearer('x.y.z'), 'invalid_token', /./],
      ['/mine', bearer(await stranger.token()), 'invalid_token', /^the signature does not fit$/],
      ['/mine', bearer(await token({ aud: 'them' })), 'invalid_token', /^aud "them" does not name http/],
      [
        '/mine',
        bearer(await token({ iss: 'them' })),
        'invalid_token',
        /^iss "them" is not trusted; trusted: http/,
      ],
      [
        '/mine',
        bearer(await token({ exp: nowSeconds - 11 })),
        'invalid_token',
        /^exp was \d+ s ago; 10 s are allowed$/,
      ],
      ['/all', bearer(await token()), 'insufficient_scope', /^no scope users:admin among "accounts:read"$/],
      [
        '/hooks/a',
        {},
        'missing_credentials',
        /^no X-API-Key, or no signature of the client that the row names$/,
      ],
      ['/hooks/a', { ...hook, 'x-api-key': 'guessed-key' }, 'invalid_signature', /^X-API-Key names no key/],
      [
        '/hooks/a',
        { ...hook, 'webhook-timestamp': '1' },
        'invalid_signature',
        /^webhook-timestamp is \d+ s behind our clock; 300 s are allowed$/,
      ],
      ['/hooks/a', hook, 'invalid_signature', /^no signature fits a secret of the key$/],
    ]
    for (const [path, headers, code, cause] of cases) {
      const line = await refused(path, headers)
      const route = path.startsWith('/hooks') ? '/hooks/*' : path
      assert.deepEqual([line.level, line.code, line.route], [INFO, code, route], JSON.stringify(line))
      assert.match(String(line.cause), cause)
      assert.equal(line.clientId, undefined)
      assert.equal(line.claimedClientId, headers['x-api-key'] === 'key_acme' ? 'acme' : undefined)
    }
  })

  it('repeats no credential, and no text of a caller makes a log line of its own', async () => {
    const forged = 'x"}\n{"level":50,"msg":"forged"}'
    const line = await refused(
      '/mine',
      bearer(await upstream.issuer.token({ aud: forged + 'y'.repeat(500) })),
    )
    assert.ok(String(line.cause).length < 120, String(line.cause))
    assert.equal(gateway.process.plain(), '')
    assert.ok(gateway.process.lines.every(({ msg }) => msg !== 'forged'))
    const log = JSON.stringify(gateway.process.lines)
    for (const value of [SECRET, 'guessed-key', ...presented.filter((text) => text.length > 40)]) {
      assert.ok(!log.includes(value), value)
    }
  })

  it('is logged for a few refusals at once, then one a second, with the number of those left out', async () => {
    const before = gateway.process.lines.length
    const startedMs = performance.now()
    const rounds = 300
    const agent = new Agent({ keepAlive: true })
    for (let i = 0; i < rounds; i++) await call(`${gateway.url}/mine`, { headers: bearer('a.b.c'), agent })
    agent.destroy()
    await new Promise((resolve) => setTimeout(resolve, 1100))
    await refused('/mine', bearer('a.b.c'))
    const seconds = Math.ceil((performance.now() - startedMs) / 1000)
    const lines = gateway.process.lines.slice(before).filter(({ code }) => code === 'invalid_token')
    assert.ok(lines.length <= 20 + seconds, `${lines.length} lines in ${seconds} s`)
    const unlogged = lines.reduce((sum, line) => sum + Number(line.unlogged ?? 0), 0)
    assert.ok(unlogged > 0)
    assert.equal(lines.length + unlogged, rounds + 1)
  })
})
