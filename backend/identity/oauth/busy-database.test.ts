import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { after, before, it } from 'node:test'
import { decodeJwt, exportJWK, generateKeyPair, SignJWT } from 'jose'
import * as client from 'openid-client'
import { type Database, DatabaseBusyError, OutcomeUnknownError } from '../../database/database.ts'
import { onEachDatabase } from '../../testing/databases.ts'
import { InterruptedDatabase } from '../../testing/interrupted-database.ts'
import {
  allow,
  NATIVE_REDIRECT,
  type OAuthService,
  pkce,
  startOAuthService,
  tokensFor,
} from '../../testing/oauth.ts'

/** Statements of a request that issues tokens. Each of them may fail. */
const ISSUING: Readonly<Record<string, RegExp>> = {
  'the old token or code is marked': /SET consumed_at/,
  'the access token is noted': /SET tokens_until/,
  'the refresh token is stored': /^\s*INSERT/,
}

interface Response {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, string>
}

onEachDatabase('A request for which the database was too busy', (database) => {
  const interrupted = new InterruptedDatabase()
  /** The response to the next COMMIT is lost. */
  let losesCommit = false
  let oauth: OAuthService
  let mobile: client.Configuration
  before(async () => {
    const losing: Database = {
      ...database(),
      transaction: async (work, options) => {
        const result = await database().transaction(work, options)
        if (!losesCommit) return result
        losesCommit = false
        throw new OutcomeUnknownError(new Error('a test'))
      },
    }
    oauth = await startOAuthService(interrupted.around(losing))
    mobile = await oauth.discover('mobile-app')
  })
  after(() => oauth.service.app.close())

  const failAt = (statement: RegExp) => {
    interrupted.before = {
      statement,
      happens: async () => {
        throw new DatabaseBusyError('a test')
      },
    }
  }
  const post = async (
    path: string,
    fields: Record<string, string>,
    headers: Record<string, string> = {},
  ): Promise<Response> => {
    const body = new URLSearchParams({ client_id: 'mobile-app', ...fields })
    const response = await fetch(`${oauth.url}${path}`, { method: 'POST', body, headers })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? {} : (JSON.parse(text) as Record<string, string>),
    }
  }
  const refresh = (refresh_token: string | undefined, headers: Record<string, string> = {}) =>
    post('/oauth/token', { grant_type: 'refresh_token', refresh_token: refresh_token ?? '' }, headers)
  const revoke = (token: string | undefined) => post('/oauth/revoke', { token: token ?? '' })
  const sessionOf = (accessToken: string | undefined) => String(decodeJwt(accessToken ?? '').sid)
  const keptOf = async (session: string) =>
    (await database().query('SELECT 1 AS one FROM oauth_artifacts WHERE grant_id = $1', [session])).length
  const assertBusy = ({ status, headers, body }: Response) => {
    assert.deepEqual([status, body.error], [503, 'temporarily_unavailable'])
    assert.equal(headers.get('retry-after'), '1')
    assert.match(String(headers.get('content-type')), /json/)
    assert.equal(headers.get('x-revoke-session'), null)
    assert.equal(interrupted.before, undefined, 'the statement was reached')
  }

  for (const [moment, statement] of Object.entries(ISSUING)) {
    it(`may refresh again with the same token after it failed while ${moment}`, async () => {
      const { refresh_token } = await tokensFor(oauth, mobile)
      failAt(statement)
      assertBusy(await refresh(refresh_token))
      const again = await refresh(refresh_token)
      assert.equal(again.status, 200)
      assert.equal(again.headers.get('x-revoke-session'), null)
      const next = await refresh(again.body.refresh_token)
      assert.equal(next.status, 200)
      assert.equal((await refresh(again.body.refresh_token)).status, 400, 'used twice')
      assert.equal(await keptOf(sessionOf(next.body.access_token)), 0)
    })

    it(`may exchange the same code again after it failed while ${moment}`, async () => {
      const { verifier, parameters } = await pkce()
      const back = await allow(oauth, client.buildAuthorizationUrl(mobile, parameters))
      const exchange = () =>
        post('/oauth/token', {
          grant_type: 'authorization_code',
          code: back.searchParams.get('code') ?? '',
          code_verifier: verifier,
          redirect_uri: NATIVE_REDIRECT,
        })
      failAt(statement)
      assertBusy(await exchange())
      const { status, body } = await exchange()
      assert.equal(status, 200)
      assert.equal((await refresh(body.refresh_token)).status, 200)
      const twice = await exchange()
      assert.equal(twice.status, 400)
      assert.equal(twice.headers.get('x-revoke-session'), sessionOf(body.access_token))
    })
  }

  it('gets no Retry-After when the response to COMMIT is lost, because its token is used up', async () => {
    const { refresh_token } = await tokensFor(oauth, mobile)
    losesCommit = true
    const { status, headers, body } = await refresh(refresh_token)
    assert.deepEqual([status, body.error, headers.get('retry-after')], [500, 'server_error', null])
    assert.match(String(body.error_description), /unknown whether it took effect/)
    assert.equal((await refresh(refresh_token)).status, 400)
  })

  const proving = async () => {
    const { publicKey, privateKey } = await generateKeyPair('ES256')
    const jwk = await exportJWK(publicKey)
    return (nonce?: string) =>
      new SignJWT({ jti: randomUUID(), htm: 'POST', htu: `${oauth.url}/oauth/token`, nonce })
        .setProtectedHeader({ alg: 'ES256', typ: 'dpop+jwt', jwk })
        .setIssuedAt()
        .sign(privateKey)
  }

  it('uses up its DPoP proof also when another request used the token at the same moment', async () => {
    const proof = await proving()
    const [first, second] = [await tokensFor(oauth, mobile), await tokensFor(oauth, mobile)]
    const asked = await refresh(first.refresh_token, { dpop: await proof() })
    const nonce = asked.headers.get('dpop-nonce') ?? ''
    const dpop = await proof(nonce)
    interrupted.after = {
      statement: /^\s*SELECT/,
      model: 'RefreshToken',
      happens: async () => {
        const { status } = await refresh(first.refresh_token, { dpop: await proof(nonce) })
        assert.equal(status, 200)
      },
    }
    assert.equal((await refresh(first.refresh_token, { dpop })).body.error, 'invalid_grant')
    assert.equal((await refresh(second.refresh_token, { dpop })).body.error, 'invalid_grant')
    assert.equal((await refresh(second.refresh_token, { dpop: await proof(nonce) })).status, 200)
  })

  it('may be sent again as it was, with its DPoP proof, which is good once', async () => {
    const proof = await proving()
    const { refresh_token } = await tokensFor(oauth, mobile)
    const asked = await refresh(refresh_token, { dpop: await proof() })
    assert.equal(asked.body.error, 'use_dpop_nonce')
    const dpop = await proof(asked.headers.get('dpop-nonce') ?? '')
    failAt(/SET tokens_until/)
    assertBusy(await refresh(refresh_token, { dpop }))
    const again = await refresh(refresh_token, { dpop })
    assert.deepEqual([again.status, again.body.token_type], [200, 'DPoP'])
    assert.equal((await refresh(again.body.refresh_token, { dpop })).body.error, 'invalid_grant')
  })

  it('ends the grant of a token that was used twice, when it is sent again', async () => {
    const first = await tokensFor(oauth, mobile)
    const second = await refresh(first.refresh_token)
    failAt(/^\s*DELETE/)
    assertBusy(await refresh(first.refresh_token))
    assert.notEqual(await keptOf(sessionOf(first.access_token)), 0)
    const again = await refresh(first.refresh_token)
    assert.deepEqual([again.status, again.body.error], [400, 'invalid_grant'])
    assert.equal(again.headers.get('x-revoke-session'), sessionOf(first.access_token))
    assert.equal(await keptOf(sessionOf(first.access_token)), 0)
    assert.equal((await refresh(second.body.refresh_token)).status, 400)
  })

  for (const statement of [/DELETE .* WHERE grant_id/, /DELETE .* id_hash/]) {
    it(`revokes the token when it is sent again after it failed at ${statement.source}`, async () => {
      const { refresh_token, access_token } = await tokensFor(oauth, mobile)
      failAt(statement)
      assertBusy(await revoke(refresh_token))
      assert.notEqual(await keptOf(sessionOf(access_token)), 0)
      const again = await revoke(refresh_token)
      assert.equal(again.status, 200)
      assert.equal(again.headers.get('x-revoke-session'), sessionOf(access_token))
      assert.equal(await keptOf(sessionOf(access_token)), 0)
    })
  }

  it('has its ended grant named by the next response when the gateway hung up', async () => {
    const { refresh_token = '', access_token } = await tokensFor(oauth, mobile)
    const hungUp = Promise.withResolvers<void>()
    oauth.service.app.server.once('connection', (socket) => socket.once('close', hungUp.resolve))
    const gateway = connect(Number(new URL(oauth.url).port), 'localhost')
    interrupted.before = {
      statement: /DELETE .* WHERE grant_id/,
      happens: () => {
        gateway.destroy()
        return hungUp.promise
      },
    }
    const body = String(new URLSearchParams({ client_id: 'mobile-app', token: refresh_token }))
    gateway.write(
      `POST /oauth/revoke HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: ${body.length}\r\n` +
        `Content-Type: application/x-www-form-urlencoded\r\n\r\n${body}`,
    )
    const session = sessionOf(access_token)
    const isLogged = () => oauth.service.log.some(({ sessionId }) => sessionId === session)
    while (!isLogged()) await new Promise(setImmediate)
    const headers = { 'x-forwarded-for': '192.0.2.1' }
    const next = await fetch(`${oauth.url}/.well-known/jwks.json`, { headers })
    assert.equal(next.headers.get('x-revoke-session'), session)
  })

  it('does not use up a code that it got no tokens for', async () => {
    const { verifier, parameters } = await pkce()
    const back = await allow(oauth, client.buildAuthorizationUrl(mobile, parameters))
    const exchange = (resource: string) =>
      post('/oauth/token', {
        grant_type: 'authorization_code',
        code: back.searchParams.get('code') ?? '',
        code_verifier: verifier,
        redirect_uri: NATIVE_REDIRECT,
        resource,
      })
    assert.equal((await exchange('https://elsewhere.example/api')).body.error, 'invalid_target')
    assert.equal((await exchange(`${oauth.url}/api`)).status, 200)
  })
})
