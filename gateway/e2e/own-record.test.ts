import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { decodeJwt } from 'jose'
import type * as client from 'openid-client'
import { call, type ReceivedResponse } from './client.ts'
import { ALICE, discover, tokensFor } from './oauth-client.ts'
import { commonService, type TestService } from './running-service.ts'

const NEXT = 'another password'

describe("a user's own record behind the gateway", () => {
  let service: TestService
  let mobile: client.Configuration
  before(async () => {
    service = await commonService()
    mobile = await discover(service, 'mobile-app')
  })

  const login = (password: string): Promise<ReceivedResponse> =>
    call(`${service.url}/api/login`, { method: 'POST', body: { ...ALICE, password } })
  const ownRecord = (token: string, method: string, body?: object): Promise<ReceivedResponse> => {
    // Node sends the body of a DELETE without a length, unless a header has it.
    const framing = body && { 'content-length': String(Buffer.byteLength(JSON.stringify(body))) }
    return call(`${service.url}/api/users/${decodeJwt(token).sub}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...framing },
      ...(body && { body }),
    })
  }
  const data = async (token: string): Promise<number> =>
    (await call(`${service.url}/api/data`, { headers: { authorization: `Bearer ${token}` } })).status

  it('is out of reach of an app that may only see the balance', async () => {
    const { access_token: token } = await tokensFor(mobile, { scope: 'openid accounts:read' })
    const takeover = { password: NEXT, currentPassword: ALICE.password }
    assert.equal((await ownRecord(token, 'GET')).status, 403)
    assert.equal((await ownRecord(token, 'PATCH', takeover)).status, 403)
    assert.equal((await ownRecord(token, 'PUT', { name: 'N', email: ALICE.email })).status, 403)
    assert.equal((await ownRecord(token, 'DELETE', { currentPassword: ALICE.password })).status, 403)
    assert.equal((await login(ALICE.password)).status, 200)
  })

  it('is read and changed by an app with profile:write, which the metadata names', async () => {
    assert.ok(mobile.serverMetadata().scopes_supported?.includes('profile:write'))
    const { access_token: token } = await tokensFor(mobile, { scope: 'openid profile:write' })
    assert.equal((await ownRecord(token, 'GET')).json().email, ALICE.email)
    assert.equal((await ownRecord(token, 'PATCH', { name: 'Alice M.' })).status, 200)
    assert.equal((await ownRecord(token, 'PATCH', { password: NEXT })).json().code, 'password_required')
  })

  it('gets a new password only with the present one, and all other sessions and grants end at once', async () => {
    const app = await tokensFor(mobile)
    const [here, elsewhere] = [await login(ALICE.password), await login(ALICE.password)].map(
      (response) => response.json<{ accessToken: string }>().accessToken,
    ) as [string, string]
    assert.equal((await ownRecord(here, 'PATCH', { password: NEXT })).json().code, 'password_required')
    const wrong = await ownRecord(here, 'PATCH', { password: NEXT, currentPassword: 'wrong' })
    assert.equal(wrong.status, 403)
    assert.deepEqual(await Promise.all([here, elsewhere, app.access_token].map(data)), [200, 200, 200])
    const changed = await ownRecord(here, 'PATCH', { password: NEXT, currentPassword: ALICE.password })
    assert.equal(changed.status, 200)
    assert.equal(changed.headers['x-revoke-session'], undefined)
    assert.deepEqual(await Promise.all([here, elsewhere, app.access_token].map(data)), [200, 401, 401])
    assert.deepEqual([(await login(ALICE.password)).status, (await login(NEXT)).status], [401, 200])
  })

  it('is deleted only with the present password', async () => {
    const { accessToken: token } = (await login(NEXT)).json<{ accessToken: string }>()
    assert.equal((await ownRecord(token, 'DELETE')).json().code, 'password_required')
    assert.equal((await ownRecord(token, 'DELETE', { currentPassword: NEXT })).status, 204)
    assert.equal(await data(token), 401)
    assert.equal((await login(NEXT)).status, 401)
  })
})
