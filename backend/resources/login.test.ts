import assert from 'node:assert/strict'
import { before, it } from 'node:test'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { hashPassword } from '../identity/passwords.ts'
import { onEachDatabase } from '../testing/databases.ts'
import { PUBLIC_URL, startTestService, type TestService, type TestUser } from '../testing/service.ts'

onEachDatabase('POST /api/login', (database) => {
  let service: TestService
  let alice: TestUser
  before(async () => {
    service = await startTestService(database())
    alice = await service.addUser({
      email: 'Alice@Example.com',
      passwordHash: await hashPassword('correct horse'),
      balanceMinor: 100_00n,
    })
  })
  const login = (payload: object) => service.send({ method: 'POST', url: '/api/login', payload })

  it('responds with tokens when address and password are right', async () => {
    const { status, body } = await login({ email: 'Alice@Example.com', password: 'correct horse' })
    assert.equal(status, 200)
    assert.deepEqual(Object.keys(body), ['accessToken', 'tokenType', 'expiresIn', 'refreshToken'])
    assert.equal(body.tokenType, 'Bearer')
    assert.equal(body.expiresIn, 600)
    assert.match(body.refreshToken, /^[A-Za-z0-9_-]{43}$/)
  })

  it('issues access tokens in the profile of RFC 9068 that the published keys verify', async () => {
    const { body } = await login({ email: 'alice@example.com', password: 'correct horse' })
    const jwks = await service.send({ method: 'GET', url: '/.well-known/jwks.json' })
    const { payload, protectedHeader } = await jwtVerify(body.accessToken, createLocalJWKSet(jwks.body), {
      issuer: PUBLIC_URL,
      audience: `${PUBLIC_URL}/api`,
      typ: 'at+jwt',
      algorithms: ['ES256'],
      currentDate: service.now(),
    })
    assert.equal(protectedHeader.kid, jwks.body.keys[0].kid)
    assert.equal(payload.sub, alice.id)
    assert.equal(payload.client_id, 'session')
    assert.equal(payload.scope, 'accounts:read transfers:write identity:verify')
    assert.equal(payload.iat, service.now().getTime() / 1000)
    assert.equal(payload.exp, (payload.iat ?? 0) + 600)
    assert.match(String(payload.sid), /^[0-9a-f-]{36}$/)
    assert.match(String(payload.jti), /^[0-9a-f-]{36}$/)
  })

  it('does not say that nothing was changed when it fails after the change', async (t) => {
    const count = async () =>
      (await database().query<{ n: bigint }>('SELECT count(*) AS n FROM sessions'))[0]?.n ?? 0n
    const before = await count()
    t.mock.getter(service.keys, 'current', () => {
      throw new Error('no key to sign with')
    })
    const { status, body } = await login({ email: 'alice@example.com', password: 'correct horse' })
    assert.deepEqual([status, body.code, await count()], [500, 'internal', before + 1n])
    assert.doesNotMatch(body.detail, /nothing/i)
    assert.match(body.detail, /unknown whether it took effect/)
  })

  it('publishes public members only', async () => {
    const { body } = await service.send({ method: 'GET', url: '/.well-known/jwks.json' })
    assert.deepEqual(Object.keys(body.keys[0]).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
  })

  it('compares e-mail addresses without regard to capitals', async () => {
    assert.equal((await login({ email: 'ALICE@example.COM', password: 'correct horse' })).status, 200)
  })

  it('gives the same refusal for a wrong password and for an unknown address', async () => {
    const wrong = await login({ email: 'alice@example.com', password: 'wrong' })
    const unknown = await login({ email: 'nobody@example.com', password: 'wrong' })
    assert.equal(wrong.status, 401)
    assert.equal(wrong.body.code, 'wrong_credentials')
    assert.match(String(wrong.headers['www-authenticate']), /^Bearer/)
    const { requestId: _one, ...first } = wrong.body
    const { requestId: _two, ...second } = unknown.body
    assert.deepEqual(first, second)
  })

  it('refuses a user without a password', async () => {
    const { email } = await service.addUser()
    assert.equal((await login({ email, password: 'anything' })).status, 401)
  })

  it('names every field that is missing, unknown or of a wrong type', async () => {
    const { status, body } = await login({ email: 7, extra: true })
    assert.equal(status, 400)
    const fields = Object.fromEntries(
      body.errors.map((e: { field: string; reason: string }) => [e.field, e.reason]),
    )
    assert.deepEqual(fields, {
      password: 'is required',
      extra: 'is not a field of this request',
      email: 'must be string',
    })
  })
})
