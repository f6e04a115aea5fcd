import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { migrate } from './database/migrations.ts'
import { openTestPglite } from './testing/databases.ts'
import { startTestService, type TestService, type TestUser } from './testing/service.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

describe('the app', () => {
  let service: TestService
  let user: TestUser
  before(async () => {
    const database = await openTestPglite()
    await migrate(database)
    service = await startTestService(database)
    user = await service.addUser({ balanceMinor: 1_00n })
  })
  after(async () => {
    await service.app.close()
    await service.database.close()
  })

  const login = (payload: string, headers: Record<string, string> = JSON_TYPE) =>
    service.send({ method: 'POST', url: '/api/login', payload, headers })

  it('responds to every error with a problem of RFC 9457 with code and request id', async () => {
    const { status, headers, body } = await service.send({
      url: '/nowhere',
      headers: { 'x-request-id': 'request-1' },
    })
    assert.equal(status, 404)
    assert.equal(headers['content-type'], 'application/problem+json')
    assert.equal(headers['x-request-id'], 'request-1')
    assert.deepEqual(body, {
      type: 'urn:countersign:problem:not_found',
      title: 'Not Found',
      status: 404,
      detail: 'There is nothing here.',
      code: 'not_found',
      requestId: 'request-1',
    })
  })

  it('replaces a request id that must not go into a log', async () => {
    const { body } = await service.send({ url: '/nowhere', headers: { 'x-request-id': 'a b' } })
    assert.match(body.requestId, /^[0-9a-f-]{36}$/)
  })

  it('refuses bodies that are not the JSON they claim to be', async () => {
    for (const payload of ['{"email":', 'null', '', '[]', '"text"', '{"a":1}x']) {
      const { status, headers } = await login(payload)
      assert.equal(status, 400, payload)
      assert.equal(headers['content-type'], 'application/problem+json')
    }
  })

  it('refuses a body with two members of one name, however they are written, and names the member', async () => {
    for (const [payload, field] of [
      ['{"amount":"1.00","amount":"2.00"}', 'amount'],
      ['{"amount":"1.00","\\u0061mount":"1.00"}', 'amount'],
      ['{"a":[{"b":{"c":1,"d":{"c":2},"c":3}}]}', 'c'],
      ['{"a": "}", "b\\"": 1, "b\\"" : 2}', 'b"'],
      ['{"":1,"":1}', ''],
      [`{"${'x'.repeat(200)}":1,"${'x'.repeat(200)}":1}`, `${'x'.repeat(99)}…`],
    ] as const) {
      const { status, body } = await login(payload)
      assert.equal(status, 400, payload)
      assert.equal(body.code, 'invalid_request')
      assert.deepEqual(body.errors, [{ field, reason: 'is given more than once' }], payload)
    }
    const once = '{"a":{"c":1},"b":{"c":1},"l":["x","x",{"c":1},{"c":":"}],"c":"\\"c\\":"}'
    assert.deepEqual(
      (await login(once)).body.errors.map(({ reason }: { reason: string }) => reason),
      ['is required', 'is required', ...Array(4).fill('is not a field of this request')],
    )
  })

  it('refuses JSON that would poison prototypes', async () => {
    for (const payload of ['{"__proto__":{"x":1}}', '{"constructor":{"prototype":{"x":1}}}']) {
      const { status, body } = await login(payload)
      assert.equal(status, 400)
      assert.equal(body.code, 'malformed_body')
    }
  })

  it('refuses every media type but JSON', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/xml', 'nonsense']) {
      const { status, body } = await login('{}', { 'content-type': type })
      assert.equal(status, 415, type)
      assert.equal(body.code, 'unsupported_media_type')
    }
    assert.equal((await login('{}', { 'content-type': 'application/json; charset=utf-8' })).status, 400)
  })

  it('refuses a body that is too large', async () => {
    const { status, body } = await login(JSON.stringify({ email: 'x'.repeat(65 * 1024) }))
    assert.equal(status, 413)
    assert.equal(body.code, 'body_too_large')
  })

  it('neither coerces types nor drops unknown fields of a body', async () => {
    const { status, body } = await login('{"email":"a@example.com","password":1,"admin":true}')
    assert.equal(status, 400)
    assert.deepEqual(body.errors, [
      { field: 'admin', reason: 'is not a field of this request' },
      { field: 'password', reason: 'must be string' },
    ])
  })

  it('responds 405 with Allow on a known path, with or without a parameter in it', async () => {
    const cases = [
      { method: 'DELETE', url: '/api/login', allow: 'POST' },
      { method: 'POST', url: `/api/users/${user.id}?x=1`, allow: 'DELETE, GET, HEAD, PATCH, PUT' },
    ] as const
    for (const { method, url, allow } of cases) {
      const { status, headers, body } = await service.send({ method, url })
      assert.equal(status, 405)
      assert.equal(body.code, 'method_not_allowed')
      assert.equal(headers.allow, allow)
    }
  })

  it('responds 404 on a path that only looks like a known one', async () => {
    assert.equal((await service.send({ url: '/docs/static/index.css' })).status, 200)
    assert.equal((await service.send({ url: '/docs/static/theme/docs.css' })).status, 200)
    for (const url of ['/docs/static/indexXcss', '/docs/static/theme/docsXcss', '/docs/static/..%2findex.js'])
      assert.equal((await service.send({ url })).status, 404, url)
    assert.equal((await service.send({ url: '/openapiXjson' })).status, 404)
  })

  it('gives each problem code one status, whether gateway or backend responds with it', async () => {
    const { paths } = (await service.send({ url: '/openapi.json' })).body as {
      paths: Record<string, Record<string, { responses: Record<string, { description: string }> }>>
    }
    const statuses = new Map<string, Set<string>>()
    for (const { responses } of Object.values(paths).flatMap((path) => Object.values(path))) {
      for (const [status, { description }] of Object.entries(responses).filter(
        ([one]) => Number(one) >= 400,
      )) {
        for (const code of description.split(', ')) {
          statuses.set(code, (statuses.get(code) ?? new Set()).add(status))
        }
      }
    }
    assert.ok(statuses.size > 40)
    const several = [...statuses].filter(([, found]) => found.size > 1).map(([code]) => code)
    assert.deepEqual(several, [])
  })

  it('names the field of an id that is too long', async () => {
    const { status, body } = await service.send({ url: `/api/users/${'x'.repeat(500)}`, as: user })
    assert.equal(status, 400)
    assert.equal(body.errors?.[0].field, 'id')
  })

  it('names at most 20 faults of a request, and shortens long names', async () => {
    const keys = Array.from({ length: 5000 }, (_, n) => [`k${n}`, 0])
    const many = Object.fromEntries([...keys, [`long${'x'.repeat(2000)}`, 0]])
    const login = (payload: object) => service.send({ method: 'POST', url: '/api/login', payload })
    const flooded = await login(many)
    assert.equal(flooded.status, 400)
    assert.equal(flooded.body.errors.length, 20)
    assert.ok(flooded.text.length < 4000, `${flooded.text.length} bytes`)
    assert.deepEqual(flooded.body.errors.slice(0, 3), [
      { field: 'email', reason: 'is required' },
      { field: 'password', reason: 'is required' },
      { field: 'k0', reason: 'is not a field of this request' },
    ])
    const long = await login({ email: 'a@example.com', password: 'x', [`long${'x'.repeat(2000)}`]: 0 })
    assert.deepEqual(long.body.errors, [
      { field: `long${'x'.repeat(95)}…`, reason: 'is not a field of this request' },
    ])
  })

  it('responds with a problem to a target that cannot be decoded', async () => {
    const { status, body } = await service.send({ url: '/api/users/%ff' })
    assert.equal(status, 400)
    assert.equal(body.code, 'malformed_target')
  })

  it('reveals nothing of a fault of its own, and logs it under the request id', async () => {
    await service.database.query('ALTER TABLE accounts RENAME TO accounts_gone')
    try {
      const { status, body, text } = await service.send({
        url: '/api/balance',
        as: user,
        headers: { 'x-request-id': 'faulty' },
      })
      assert.equal(status, 500)
      assert.equal(body.code, 'internal')
      assert.doesNotMatch(text, /accounts|relation|SELECT/)
      const line = service.log.find((entry) => entry.requestId === 'faulty')
      assert.match(JSON.stringify(line), /accounts/)
    } finally {
      await service.database.query('ALTER TABLE accounts_gone RENAME TO accounts')
    }
  })

  it('shows a user the balance of the account', async () => {
    const { status, body } = await service.send({ url: '/api/balance', as: user })
    assert.equal(status, 200)
    assert.deepEqual(body, {
      accountId: user.accountId,
      currency: 'EUR',
      balance: '1.00',
      available: '1.00',
      asOf: service.now().toISOString(),
    })
    assert.equal((await service.send({ url: '/api/balance' })).status, 401)
    assert.equal(
      (await service.send({ url: '/api/balance', headers: { 'x-auth-client': 'bank-b' } })).status,
      401,
    )
  })

  it('gives the currencies of ISO 4217 to every principal, user or machine, and to nobody else', async () => {
    const { status, body } = await service.send({ url: '/api/data', headers: { 'x-auth-client': 'bank-b' } })
    assert.equal(status, 200)
    assert.equal(body.currencies.length, 178)
    const find = (code: string) =>
      body.currencies.find((currency: { code: string }) => currency.code === code)
    assert.deepEqual(find('EUR'), { code: 'EUR', name: 'Euro', minorUnits: 2 })
    assert.equal(find('JPY').minorUnits, 0)
    assert.equal(find('BHD').minorUnits, 3)
    assert.equal(find('XAU').minorUnits, null)
    assert.equal(find('BGN'), undefined, 'withdrawn on 1 January 2026')
    const codes = body.currencies.map((currency: { code: string }) => currency.code)
    assert.deepEqual(codes, [...new Set(codes)].sort())
    assert.equal((await service.send({ url: '/api/data', as: user })).status, 200)
    assert.equal((await service.send({ url: '/api/data' })).status, 401)
  })

  it('tells the container that it is alive', async () => {
    assert.deepEqual((await service.send({ url: '/healthz' })).body, { status: 'ok' })
  })

  it('responds with a problem to bytes that are no HTTP, and closes the connection', async () => {
    const { server } = service.app
    await service.app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = server.address() as AddressInfo
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true })
    socket.write('nonsense\r\n\r\n')
    const [response] = await once(socket.setEncoding('utf8'), 'data')
    assert.match(response, /^HTTP\/1\.1 400 /)
    assert.match(response, /application\/problem\+json/)
    while ((await promisify(server.getConnections.bind(server))()) > 0) await new Promise(setImmediate)
    socket.destroy()
  })
})
