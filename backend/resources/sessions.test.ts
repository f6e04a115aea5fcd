import assert from 'node:assert/strict'
import { before, it } from 'node:test'
import { decodeJwt } from 'jose'
import { sweep } from '../housekeeping.ts'
import { openSession } from '../identity/session-store.ts'
import { onEachDatabase } from '../testing/databases.ts'
import { cheapHash } from '../testing/password-hash.ts'
import { startTestService, type TestService, type TestUser } from '../testing/service.ts'

const DAY_MS = 24 * 60 * 60 * 1000

onEachDatabase('the handling of sessions', (database) => {
  let service: TestService
  let alice: TestUser
  before(async () => {
    service = await startTestService(database())
    alice = await service.addUser({ passwordHash: cheapHash('password') })
  })

  const login = async () => {
    const payload = { email: alice.email, password: 'password' }
    const { body } = await service.send({ method: 'POST', url: '/api/login', payload })
    return {
      refreshToken: body.refreshToken as string,
      sessionId: String(decodeJwt(body.accessToken).sid),
    }
  }
  const refresh = (refreshToken: unknown) =>
    service.send({ method: 'POST', url: '/api/session/refresh', payload: { refreshToken } })

  it('exchanges a refresh token for new tokens of the same session', async () => {
    const { refreshToken, sessionId } = await login()
    const { status, body } = await refresh(refreshToken)
    assert.equal(status, 200)
    assert.notEqual(body.refreshToken, refreshToken)
    assert.equal(decodeJwt(body.accessToken).sid, sessionId)
    assert.equal((await refresh(body.refreshToken)).status, 200)
  })

  it('opens no session for a password that has just been replaced', async () => {
    const oldHash = cheapHash('old')
    const user = await service.addUser({ passwordHash: cheapHash('new') })
    const proved = { id: user.id, role: 'user', passwordHash: oldHash } as const
    assert.equal(await openSession(database(), proved, service.now()), undefined)
  })

  it('revokes the whole family when a refresh token is used again', async () => {
    const { refreshToken, sessionId } = await login()
    const next = await refresh(refreshToken)
    const reused = await refresh(refreshToken)
    assert.equal(reused.status, 401)
    assert.equal(reused.body.code, 'refresh_token_reused')
    assert.equal(reused.headers['x-revoke-session'], sessionId)
    const afterwards = await refresh(next.body.refreshToken)
    assert.equal(afterwards.status, 401)
    assert.equal(afterwards.body.code, 'invalid_refresh_token')
  })

  it('lets exactly one of many concurrent uses of a refresh token win', async () => {
    const { refreshToken } = await login()
    const responses = await Promise.all(Array.from({ length: 8 }, () => refresh(refreshToken)))
    const statuses = responses.map((response) => response.status).sort()
    assert.deepEqual(statuses, [200, ...Array(7).fill(401)])
    const winner = responses.find((response) => response.status === 200)
    assert.equal(
      (await refresh(winner?.body.refreshToken)).status,
      401,
      'the family is revoked by the others',
    )
  })

  it('refuses a refresh token that it never issued, without revoking anything', async () => {
    const { status, body, headers } = await refresh('A'.repeat(43))
    assert.equal(status, 401)
    assert.equal(body.code, 'invalid_refresh_token')
    assert.equal(headers['x-revoke-session'], undefined)
  })

  it('refuses a refresh token after 30 days', async () => {
    const first = await login()
    service.advance(30 * DAY_MS - 1)
    const second = await refresh(first.refreshToken)
    assert.equal(second.status, 200)
    service.advance(30 * DAY_MS)
    assert.equal((await refresh(second.body.refreshToken)).body.code, 'invalid_refresh_token')
  })

  it('stores refresh tokens only as their hash', async () => {
    const { refreshToken } = await login()
    const rows = await database().query<{ hash: string }>('SELECT hash FROM refresh_tokens')
    assert.ok(rows.length > 0)
    assert.ok(rows.every((row) => /^[0-9a-f]{64}$/.test(row.hash) && row.hash !== refreshToken))
  })

  it('ends the session at logout and tells the gateway', async () => {
    const { refreshToken, sessionId } = await login()
    const { status, headers, text } = await service.send({
      method: 'POST',
      url: '/api/logout',
      as: alice,
      session: sessionId,
    })
    assert.equal(status, 204)
    assert.equal(text, '')
    assert.equal(headers['x-revoke-session'], sessionId)
    assert.equal((await refresh(refreshToken)).status, 401)
  })

  it('does not let a user end the session of somebody else', async () => {
    const { refreshToken, sessionId } = await login()
    const mallory = await service.addUser()
    await service.send({ method: 'POST', url: '/api/logout', as: mallory, session: sessionId })
    assert.equal((await refresh(refreshToken)).status, 200)
  })

  it('refuses a logout without a user, and one of a credential that has no session', async () => {
    const nobody = await service.send({ method: 'POST', url: '/api/logout' })
    assert.equal(nobody.status, 401)
    const sessionless = await service.send({ method: 'POST', url: '/api/logout', as: alice, session: '' })
    assert.equal(sessionless.status, 403)
    assert.equal(sessionless.body.code, 'no_session')
  })

  it('keeps what may still be used when it sweeps, and deletes the rest', async () => {
    const expired = await login()
    service.advance(10 * DAY_MS)
    const inForce = await login()
    const exchanged = await login()
    await refresh(exchanged.refreshToken)
    service.advance(20 * DAY_MS)
    await sweep(database(), service.now())
    const left = await database().query<{ id: string }>('SELECT id FROM sessions ORDER BY id')
    const ids = left.map((session) => session.id)
    assert.ok(!ids.includes(expired.sessionId))
    assert.ok(ids.includes(inForce.sessionId))
    assert.equal((await refresh(inForce.refreshToken)).status, 200)
    const reused = await refresh(exchanged.refreshToken)
    assert.equal(
      reused.body.code,
      'refresh_token_reused',
      'an exchanged token is remembered until it expires',
    )
  })
})
