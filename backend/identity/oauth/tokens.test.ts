import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { decodeJwt } from 'jose'
import * as client from 'openid-client'
import { sweep } from '../../housekeeping.ts'
import { onEachDatabase } from '../../testing/databases.ts'
import { FormBrowser } from '../../testing/form-browser.ts'
import { type OAuthService, pkce, startOAuthService, tokensFor, WEB_REDIRECT } from '../../testing/oauth.ts'
import { cheapHash } from '../../testing/password-hash.ts'
import { issueAccessToken } from '../session-tokens.ts'
import { noteAccessToken, revokeGrant } from './artifacts.ts'

onEachDatabase('OAuth tokens', (database) => {
  let oauth: OAuthService
  let mobile: client.Configuration
  before(async () => {
    oauth = await startOAuthService(database())
    mobile = await oauth.discover('mobile-app')
  })
  after(() => oauth.service.app.close())

  const refresh = (refresh_token: string | undefined) =>
    fetch(`${oauth.url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        client_id: 'mobile-app',
        refresh_token: refresh_token ?? '',
      }),
    })
  const isDead = async (refreshToken: string | undefined) => (await refresh(refreshToken)).status === 400
  const sessionOf = (accessToken: string) => String(decodeJwt(accessToken).sid)

  it('rotate for a public client; a token used again revokes the grant, and the gateway is told', async () => {
    const first = await tokensFor(oauth, mobile)
    const second = await client.refreshTokenGrant(mobile, first.refresh_token ?? '')
    assert.notEqual(second.refresh_token, first.refresh_token)
    assert.equal(sessionOf(second.access_token), sessionOf(first.access_token))
    const reused = await refresh(first.refresh_token)
    assert.equal(reused.status, 400)
    assert.equal(reused.headers.get('x-revoke-session'), sessionOf(first.access_token))
    assert.ok(await isDead(second.refresh_token))
  })

  it('do not survive being used several times at the same moment', async () => {
    const { refresh_token, access_token } = await tokensFor(oauth, mobile)
    const responses = await Promise.all(Array.from({ length: 6 }, () => refresh(refresh_token)))
    const won = responses.filter((response) => response.status === 200)
    assert.ok(won.length <= 1, `${won.length} won`)
    for (const lost of responses.filter((response) => response.status !== 200)) {
      assert.equal(lost.status, 400)
      assert.equal(((await lost.json()) as { error: string }).error, 'invalid_grant')
    }
    assert.ok(
      responses.some((response) => response.headers.get('x-revoke-session') === sessionOf(access_token)),
    )
    for (const response of won) {
      const { refresh_token: next } = (await response.json()) as { refresh_token: string }
      assert.ok(await isDead(next), 'what the winner got is revoked too')
    }
  })

  it('of a confidential client stay the same, because a thief cannot use them without its key', async () => {
    const portal = await oauth.discover('bank-portal')
    const { refresh_token } = await tokensFor(oauth, portal, { parameters: { redirect_uri: WEB_REDIRECT } })
    const refreshed = await client.refreshTokenGrant(portal, refresh_token ?? '')
    assert.equal(refreshed.refresh_token, refresh_token)
    assert.ok(await isDead(refresh_token), 'for another client')
  })

  it('of a confidential client last as long as what the user allowed, since they are never replaced', async () => {
    const portal = await oauth.discover('bank-portal')
    const ofPortal = await tokensFor(oauth, portal, { parameters: { redirect_uri: WEB_REDIRECT } })
    const ofMobile = await tokensFor(oauth, mobile)
    const daysLeft = async (model: string, token: string) => {
      const [row] = await database().query<{ days: number }>(
        `SELECT round(extract(epoch FROM expires_at - now()) / 86400)::int AS days
           FROM oauth_artifacts WHERE model = $1 AND grant_id = $2`,
        [model, sessionOf(token)],
      )
      return row?.days
    }
    assert.equal(await daysLeft('Grant', ofPortal.access_token), 366)
    assert.equal(await daysLeft('RefreshToken', ofPortal.access_token), 366)
    assert.equal(await daysLeft('RefreshToken', ofMobile.access_token), 30)
  })

  it('end with their revocation (RFC 7009), and the gateway is told', async () => {
    const tokens = await tokensFor(oauth, mobile)
    const body = new URLSearchParams({ client_id: 'mobile-app', token: tokens.refresh_token ?? '' })
    const response = await fetch(`${oauth.url}/oauth/revoke`, { method: 'POST', body })
    assert.equal(response.status, 200)
    assert.equal(response.headers.get('x-revoke-session'), sessionOf(tokens.access_token))
    assert.ok(await isDead(tokens.refresh_token))
  })

  it('end with the revocation of their access token as well, by their own client only', async () => {
    const revoke = async (token: string, client_id = 'mobile-app') => {
      const body = new URLSearchParams({ client_id, token, token_type_hint: 'access_token' })
      const response = await fetch(`${oauth.url}/oauth/revoke`, { method: 'POST', body })
      return [response.status, response.headers.get('x-revoke-session'), await response.text()]
    }
    const { access_token: token, refresh_token } = await tokensFor(oauth, mobile)
    const [header, payload, signature = ''] = token.split('.')
    const changed = `${signature.slice(0, 9)}${signature[9] === 'A' ? 'B' : 'A'}${signature.slice(10)}`
    const { keys } = oauth.service
    const issuer = { keys, publicUrl: oauth.url, clock: () => new Date() }
    const session = { userId: oauth.user.id, sessionId: sessionOf(token), role: 'user' } as const
    const idToken = (await tokensFor(oauth, mobile)).id_token ?? ''
    for (const other of [
      `${header}.${payload}.${changed}`,
      issueAccessToken(issuer, session),
      issueAccessToken({ ...issuer, publicUrl: 'https://other.example' }, session),
      issueAccessToken({ ...issuer, clock: () => new Date(0) }, session),
      idToken,
    ])
      assert.deepEqual(await revoke(other), [200, null, ''])
    const portal = await oauth.discover('bank-portal')
    await client.tokenRevocation(portal, token)
    assert.equal((await revoke(token, 'unknown'))[0], 401)
    assert.ok(!(await isDead(refresh_token)), 'nothing of that ends the grant')
    const mine = await tokensFor(oauth, mobile)
    assert.deepEqual(await revoke(mine.access_token), [200, sessionOf(mine.access_token), ''])
    assert.ok(await isDead(mine.refresh_token))
    assert.equal((await revoke(mine.access_token))[0], 200)
    const ofPortal = await tokensFor(oauth, portal, { parameters: { redirect_uri: WEB_REDIRECT } })
    await client.tokenRevocation(portal, ofPortal.access_token)
    await assert.rejects(client.refreshTokenGrant(portal, ofPortal.refresh_token ?? ''))
  })

  it('come with a scope that names all that was granted, and no more', async () => {
    const granted = async (scope: string) =>
      (await tokensFor(oauth, mobile, { parameters: { scope } })).scope?.split(' ').sort().join(' ')
    for (const scope of [
      'accounts:read offline_access openid',
      'openid',
      'accounts:read',
      'accounts:read offline_access',
    ])
      assert.equal(await granted(scope), scope)
    const portal = await oauth.discover('bank-portal')
    const scope = 'openid offline_access accounts:read users:admin'
    const noOperator = await tokensFor(oauth, portal, { parameters: { scope, redirect_uri: WEB_REDIRECT } })
    assert.equal(noOperator.scope, 'openid offline_access accounts:read')
    const { refresh_token = '' } = await tokensFor(oauth, mobile)
    const narrowed = await client.refreshTokenGrant(mobile, refresh_token, { scope: 'accounts:read' })
    assert.equal(narrowed.scope, 'offline_access accounts:read')
  })

  it('end with POST /api/logout, for their own user only, and again when the first response is lost', async () => {
    const tokens = await tokensFor(oauth, mobile)
    const session = sessionOf(tokens.access_token)
    const logout = (as: { id: string }) =>
      oauth.service.send({ method: 'POST', url: '/api/logout', as, session })
    const mallory = await oauth.service.addUser()
    await logout(mallory)
    const { refresh_token } = await client.refreshTokenGrant(mobile, tokens.refresh_token ?? '')
    for (let sent = 1; sent <= 2; sent++) {
      const response = await logout(oauth.user)
      assert.equal(response.status, 204)
      assert.equal(response.headers['x-revoke-session'], session)
    }
    assert.ok(await isDead(refresh_token))
  })

  it('end with a new password, except those of the session that set it', async () => {
    const [ended, kept] = [await tokensFor(oauth, mobile), await tokensFor(oauth, mobile)]
    const response = await oauth.service.send({
      method: 'PATCH',
      url: `/api/users/${oauth.user.id}`,
      as: oauth.user,
      client: 'mobile-app',
      scope: 'profile:write',
      session: sessionOf(kept.access_token),
      payload: { password: 'correct horse', currentPassword: 'correct horse' },
    })
    assert.equal(response.status, 200)
    const revoked = String(response.headers['x-revoke-session']).split(', ')
    assert.ok(revoked.includes(sessionOf(ended.access_token)))
    assert.ok(!revoked.includes(sessionOf(kept.access_token)))
    assert.ok(await isDead(ended.refresh_token))
    assert.ok(!(await isDead(kept.refresh_token)))
  })

  it('end with their user', async () => {
    const user = await oauth.service.addUser({ passwordHash: cheapHash('correct horse') })
    const tokens = await tokensFor({ ...oauth, user }, mobile)
    const response = await oauth.service.send({
      method: 'DELETE',
      url: `/api/users/${user.id}`,
      as: user,
      payload: { currentPassword: 'correct horse' },
    })
    assert.equal(response.headers['x-revoke-session'], sessionOf(tokens.access_token))
    assert.ok(await isDead(tokens.refresh_token))
    const [left] = await database().query('SELECT 1 AS one FROM oauth_artifacts WHERE account_id = $1', [
      user.id,
    ])
    assert.equal(left, undefined)
  })

  it('end with their user when there are hundreds, and each response names some in one field', async () => {
    const { service } = oauth
    const user = await service.addUser({ passwordHash: cheapHash('correct horse') })
    const { access_token: token } = await tokensFor({ ...oauth, user }, mobile)
    const grant = (
      id: string,
      until: string,
    ) => `('Grant', '${id}', '{}', '${id}', '${user.id}', now() + interval
      '300 days', now() + interval '${until}')`
    const ids = Array.from({ length: 650 }, (_, n) => `grant-${String(n).padStart(37, '0')}`)
    const rows = ids.map((id, n) => grant(id, n < 450 ? '5 minutes' : '-1 second'))
    await database().query(
      `INSERT INTO oauth_artifacts (model, id_hash, payload, grant_id, account_id, expires_at, tokens_until)
       VALUES ${rows.join(', ')}`,
    )
    const leaving = { currentPassword: 'correct horse' }
    const headers = { 'x-forwarded-for': '127.0.0.1' }
    const gone = await service.send({
      method: 'DELETE',
      url: `/api/users/${user.id}`,
      as: user,
      payload: leaving,
      headers,
    })
    assert.equal(gone.status, 204)
    assert.equal((await service.send({ url: '/healthz' })).headers['x-revoke-session'], undefined)
    const responses = [gone]
    for (let n = 0; n < 3; n++) responses.push(await service.send({ url: '/api/data', as: user, headers }))
    const named = responses.map((response) => response.headers['x-revoke-session'])
    for (const field of named.slice(0, 3)) assert.ok(String(field).length < 10_000)
    const revoked = named.flatMap((field) => String(field ?? '').split(', ')).filter(Boolean)
    assert.deepEqual(revoked.sort(), [...ids.slice(0, 450), sessionOf(token)].sort())
    assert.equal(named[3], undefined)
  })

  it('are not given for a held-back sign-in that began with the old password', async () => {
    const user = await oauth.service.addUser({ passwordHash: cheapHash('correct horse') })
    const { parameters } = await pkce()
    const thief = new FormBrowser(oauth.url)
    const page = await thief.open(client.buildAuthorizationUrl(mobile, parameters))
    const fields = { email: user.email, password: 'correct horse' }
    const held = await thief.submit(page, '/login', fields, { redirect: 'manual' })
    assert.equal(held.status, 303)
    const changed = await oauth.service.send({
      method: 'PATCH',
      url: `/api/users/${user.id}`,
      as: user,
      payload: { password: 'another horse', currentPassword: 'correct horse' },
    })
    assert.equal(changed.status, 200)
    const resumed = await thief.open(held.url)
    assert.doesNotMatch(resumed.page, /<h1>Allow/)
    assert.equal(resumed.url.searchParams.get('code'), null)
  })

  it('are not given for a grant that ends while they are made', async () => {
    const { refresh_token, access_token } = await tokensFor(oauth, mobile)
    const until = { grantId: sessionOf(access_token), expiresAtMs: Date.now() + 600_000 }
    await noteAccessToken(database(), until)
    await revokeGrant(database(), { id: until.grantId, userId: oauth.user.id })
    await assert.rejects(noteAccessToken(database(), until), /invalid_grant/)
    assert.ok(await isDead(refresh_token))
  })

  it('include no refresh token without offline_access', async () => {
    const tokens = await tokensFor(oauth, mobile, { parameters: { scope: 'openid accounts:read' } })
    assert.equal(tokens.refresh_token, undefined)
  })

  it('are nowhere in the database, nor are codes and cookies', async () => {
    const tokens = await tokensFor(oauth, mobile)
    const rows = await database().query('SELECT * FROM oauth_artifacts')
    const text = JSON.stringify(rows, (_key, value) => (typeof value === 'bigint' ? String(value) : value))
    assert.ok(!text.includes(tokens.refresh_token ?? 'none'))
    assert.ok(!text.includes('"jti"'))
    const kinds = new Set(rows.map((row) => row.model))
    for (const kind of ['Session', 'Grant', 'AuthorizationCode', 'RefreshToken'])
      assert.ok(kinds.has(kind), kind)
  })

  it('are swept when they have expired', async () => {
    const count = async () => (await database().query('SELECT 1 AS one FROM oauth_artifacts')).length
    const portal = await oauth.discover('bank-portal')
    await tokensFor(oauth, portal, { parameters: { redirect_uri: WEB_REDIRECT } })
    await sweep(database(), new Date(Date.now() + 31 * 24 * 60 * 60 * 1000))
    const left = await database().query(
      'SELECT DISTINCT model, payload LIKE \'%"bank-portal"%\' AS confidential FROM oauth_artifacts ORDER BY 1, 2',
    )
    assert.deepEqual(left, [
      { model: 'Grant', confidential: false },
      { model: 'Grant', confidential: true },
      { model: 'RefreshToken', confidential: true },
    ])
    await sweep(database(), new Date(Date.now() + 367 * 24 * 60 * 60 * 1000))
    assert.equal(await count(), 0)
  })
})
