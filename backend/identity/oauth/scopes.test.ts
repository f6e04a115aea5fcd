import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { decodeJwt } from 'jose'
import * as client from 'openid-client'
import { onEachDatabase } from '../../testing/databases.ts'
import { FormBrowser } from '../../testing/form-browser.ts'
import {
  allow,
  type OAuthService,
  pkce,
  startOAuthService,
  tokensFor,
  WEB_REDIRECT,
} from '../../testing/oauth.ts'

const WEB = { redirect_uri: WEB_REDIRECT }

onEachDatabase('Scopes', (database) => {
  let oauth: OAuthService
  let portal: client.Configuration
  before(async () => {
    oauth = await startOAuthService(database())
    portal = await oauth.discover('bank-portal')
  })
  after(() => oauth.service.app.close())

  it('asks a signed-in browser for a scope that its user has not been asked for', async () => {
    const browser = new FormBrowser(oauth.url)
    const ask = async (scope: string) => {
      const { prompt, ...parameters } = (await pkce({ ...WEB, scope })).parameters
      return client.buildAuthorizationUrl(portal, parameters)
    }
    await allow(oauth, await ask('openid accounts:read'), browser)
    const known = await browser.open(await ask('openid accounts:read'))
    assert.ok(known.url.searchParams.get('code'), 'what was allowed is not asked for again')
    const further = await browser.open(await ask('openid accounts:read transfers:write'))
    assert.match(further.page, /<h1>Allow/)
    const back = await browser.submit(further, '/consent')
    assert.ok(back.url.searchParams.get('code'))
    const both = await browser.open(await ask('openid accounts:read transfers:write'))
    assert.ok(both.url.searchParams.get('code'))
    const more = await ask('openid accounts:read transfers:write users:admin')
    await browser.submit(await browser.open(more), '/consent')
    const again = await browser.open(more)
    assert.ok(again.url.searchParams.get('code'), 'what a user cannot grant is asked for once')
  })

  it('lets only an operator grant users:admin, and only to a client that may have it', async () => {
    const parameters = { ...WEB, scope: 'openid accounts:read users:admin' }
    const ofUser = await tokensFor(oauth, portal, { parameters })
    assert.equal(decodeJwt(ofUser.access_token).scope, 'accounts:read')
    await database().query("UPDATE users SET role = 'operator' WHERE id = $1", [oauth.user.id])
    const ofOperator = await tokensFor(oauth, portal, {
      parameters: { ...parameters, scope: `${parameters.scope} offline_access` },
    })
    assert.equal(decodeJwt(ofOperator.access_token).scope, 'accounts:read users:admin')
    await database().query("UPDATE users SET role = 'user' WHERE id = $1", [oauth.user.id])
    const refreshed = await client.refreshTokenGrant(portal, ofOperator.refresh_token ?? '')
    assert.equal(
      decodeJwt(refreshed.access_token).scope,
      'accounts:read',
      'a role that is gone counts at once',
    )
  })
})
