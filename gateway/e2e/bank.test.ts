import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { type Call, call, type ReceivedResponse } from './client.ts'
import { commonService, type TestService } from './running-service.ts'

const ALICE_MRZ = [
  'P<UTOMARTIN<<ALICE<<<<<<<<<<<<<<<<<<<<<<<<<<',
  'L898902C36UTO9003141F3501014<<<<<<<<<<<<<<02',
]

interface Session {
  readonly accessToken: string
  readonly refreshToken: string
  readonly tokenType: string
  readonly expiresIn: number
}

interface User {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly createdAt: string
  readonly updatedAt: string
}

/** The service as `npm start` runs it: the backend behind the gateway, both with the shipped configuration. */
describe('the service behind the gateway', () => {
  let service: TestService
  let operator: Session
  let alice: Session
  let bob: Session

  function ask(path: string, session?: Session, options: Call = {}): Promise<ReceivedResponse> {
    const credential = session === undefined ? {} : { authorization: `Bearer ${session.accessToken}` }
    return call(service.url + path, { ...options, headers: { ...credential, ...options.headers } })
  }

  async function login(email: string, password = 'demo-password'): Promise<ReceivedResponse> {
    return ask('/api/login', undefined, { method: 'POST', body: { email, password } })
  }

  before(async () => {
    service = await commonService()
    operator = (await login('operator@example.com')).json<Session>()
    alice = (await login('alice@example.com')).json<Session>()
    bob = (await login('bob@example.com')).json<Session>()
  })

  it('gives a session for the right password and nothing for a wrong one', async () => {
    assert.deepEqual([alice.tokenType, alice.expiresIn], ['Bearer', 600])
    const wrong = await login('alice@example.com', 'wrong')
    const unknown = await login('nobody@example.com', 'wrong')
    assert.deepEqual([wrong.status, unknown.status], [401, 401])
    assert.equal(wrong.json().detail, unknown.json().detail)
  })

  it('rotates a refresh token, and ends the session at once when an old one is used again', async () => {
    const first = (await login('bob@example.com')).json<Session>()
    const refresh = (refreshToken: string) =>
      ask('/api/session/refresh', undefined, { method: 'POST', body: { refreshToken } })
    const rotated = await refresh(first.refreshToken)
    assert.equal(rotated.status, 200)
    const second = rotated.json<Session>()
    assert.notEqual(second.refreshToken, first.refreshToken)
    assert.equal((await ask('/api/data', second)).status, 200)
    const reused = await refresh(first.refreshToken)
    assert.equal(reused.status, 401)
    assert.equal(reused.headers['x-revoke-session'], undefined)
    assert.equal((await ask('/api/data', second)).status, 401)
    assert.equal((await refresh(second.refreshToken)).status, 401)
  })

  it('refuses the tokens of a session after its logout, and only those', async () => {
    const session = (await login('bob@example.com')).json<Session>()
    assert.equal((await ask('/api/data', session)).status, 200)
    assert.equal((await ask('/api/logout', session, { method: 'POST' })).status, 204)
    const refused = await ask('/api/data', session)
    assert.equal(refused.status, 401)
    assert.match(String(refused.headers['www-authenticate']), /error="invalid_token"/)
    assert.equal((await ask('/api/data', bob)).status, 200)
  })

  it('lets an operator list, create, read, replace, change and delete users', async () => {
    const created = await ask('/api/users', operator, {
      method: 'POST',
      body: { nombre: 'Carmen Ruiz', email: 'carmen@example.com' },
    })
    assert.equal(created.status, 201)
    const user = created.json<User & Record<string, unknown>>()
    assert.equal(created.headers.location, `/api/users/${user.id}`)
    assert.deepEqual(Object.keys(user).sort(), ['createdAt', 'email', 'id', 'name', 'updatedAt'])
    const path = `/api/users/${user.id}`
    assert.equal((await ask(path, operator)).json<User>().name, 'Carmen Ruiz')
    const replaced = await ask(path, operator, {
      method: 'PUT',
      body: { name: 'Carmen Gil', email: 'gil@example.com' },
    })
    assert.deepEqual([replaced.status, replaced.json<User>().email], [200, 'gil@example.com'])
    const changed = await ask(path, operator, { method: 'PATCH', body: { name: 'C. Gil' } })
    assert.deepEqual([changed.status, changed.json<User>().name], [200, 'C. Gil'])
    assert.equal((await ask(path, operator, { method: 'DELETE' })).status, 204)
    assert.equal((await ask(path, operator)).status, 404)
  })

  it('pages through the users by limit and after', async () => {
    const seen: string[] = []
    let path: string | undefined = '/api/users?limit=2'
    while (path !== undefined) {
      const page: ReceivedResponse = await ask(path, operator)
      const users = page.json<User[]>()
      assert.ok(users.length <= 2)
      seen.push(...users.map((user) => user.email))
      path = /<([^>]+)>; rel="next"/.exec(String(page.headers.link ?? ''))?.[1]
    }
    assert.ok(seen.includes('alice@example.com') && seen.includes('bob@example.com'))
    assert.equal(new Set(seen).size, seen.length)
  })

  it('names the bad fields of a new user, and refuses an e-mail address that is taken', async () => {
    const post = (body: object) => ask('/api/users', operator, { method: 'POST', body })
    const bad = await post({ name: 'X', email: 'no address', colour: 'red' })
    assert.equal(bad.status, 400)
    assert.match(bad.body, /email/)
    assert.match(bad.body, /colour/)
    assert.equal((await post({ name: 'Alice Again', email: 'ALICE@example.com' })).status, 409)
  })

  it('shows a user their own record and no other', async () => {
    const users = (await ask('/api/users', operator)).json<User[]>()
    const idOf = (email: string) => users.find((user) => user.email === email)?.id
    assert.equal((await ask(`/api/users/${idOf('alice@example.com')}`, alice)).status, 200)
    assert.equal((await ask(`/api/users/${idOf('bob@example.com')}`, alice)).status, 403)
    assert.equal((await ask('/api/users', alice)).status, 403)
  })

  it('gives reference data to a logged-in user only', async () => {
    const data = await ask('/api/data', alice)
    assert.match(data.body, /"code":"EUR"/)
    assert.equal((await ask('/api/data')).status, 401)
  })

  it('moves money once for one Idempotency-Key, and refuses a bad transfer', async () => {
    const to = (await ask('/api/balance', bob)).json<{ accountId: string }>().accountId
    const before = (await ask('/api/balance', alice)).json<{ balance: string; currency: string }>()
    assert.deepEqual([before.balance, before.currency], ['1000.00', 'EUR'])
    const transfer = (amount: string, key?: string) =>
      ask('/api/transfer', alice, {
        method: 'POST',
        body: { toAccountId: to, amount, currency: 'EUR' },
        headers: key === undefined ? {} : { 'idempotency-key': key },
      })
    const first = await transfer('12.50', '"rent-11"')
    const again = await transfer('12.50', '"rent-11"')
    assert.deepEqual([first.status, again.status], [201, 201])
    assert.equal(first.json().transferId, again.json().transferId)
    assert.equal((await ask('/api/balance', alice)).json().balance, '987.50')
    assert.equal((await transfer('13.00', '"rent-11"')).status, 422)
    assert.equal((await transfer('5000.00')).status, 422)
    assert.equal((await transfer('0.001')).status, 400)
    assert.equal((await ask('/api/balance', alice)).json().balance, '987.50')
  })

  it('verifies a travel document against itself and the user, three times a day', async () => {
    const verify = (session: Session) =>
      ask('/api/verify', session, { method: 'POST', body: { mrz: ALICE_MRZ } })
    assert.equal((await verify(alice)).json().status, 'verified')
    assert.equal((await verify(bob)).json().status, 'rejected')
    await verify(alice)
    await verify(alice)
    const fourth = await verify(alice)
    assert.equal(fourth.status, 429)
    assert.ok(Number(fourth.headers['retry-after']) > 86_000)
  })

  it('refuses bad JSON, another media type and a large body, each with its status', async () => {
    const post = (body: string, type: string) =>
      ask('/api/login', undefined, { method: 'POST', body, headers: { 'content-type': type } })
    for (const [response, status] of [
      [await post('{"email":', 'application/json'), 400],
      [await post('email=a', 'text/plain'), 415],
      [await post(JSON.stringify({ email: 'x'.repeat(2_000_000) }), 'application/json'), 413],
    ] as const) {
      assert.equal(response.status, status)
      assert.match(String(response.headers['content-type']), /^application\/problem\+json/)
      assert.equal(response.json().requestId, response.headers['x-request-id'])
    }
  })

  it('describes itself at /openapi.json and, for people, at /docs', async () => {
    const description = (await ask('/openapi.json')).json<{ openapi: string; paths: object }>()
    assert.match(description.openapi, /^3\.1\./)
    assert.ok('/api/transfer' in description.paths)
    const page = await ask('/docs')
    assert.equal(page.status, 200)
    assert.match(String(page.headers['content-type']), /^text\/html/)
    assert.match(String(page.headers['content-security-policy']), /^default-src 'none'; script-src 'self';/)
    const loaded = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '')
    for (const path of [...loaded, '/docs/', '/docs/json']) {
      const { status, headers } = await ask(path)
      assert.equal(status, 200, path)
      for (const name of ['x-content-type-options', 'x-frame-options', 'strict-transport-security'])
        assert.ok(headers[name], `${path}: ${name}`)
    }
    assert.ok(loaded.length >= 8)
    assert.equal((await ask('/.well-known/jwks.json')).status, 200)
  })
})
