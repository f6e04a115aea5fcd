import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import * as client from 'openid-client'
import { onEachDatabase } from '../../testing/databases.ts'
import { FormBrowser } from '../../testing/form-browser.ts'
import { InterruptedDatabase } from '../../testing/interrupted-database.ts'
import { type OAuthService, PASSWORD, pkce, startOAuthService } from '../../testing/oauth.ts'
import { cheapHash } from '../../testing/password-hash.ts'
import type { TestUser } from '../../testing/service.ts'

onEachDatabase('A new password', (database) => {
  const interrupted = new InterruptedDatabase()
  let oauth: OAuthService
  let mobile: client.Configuration
  before(async () => {
    oauth = await startOAuthService(interrupted.around(database()))
    mobile = await oauth.discover('mobile-app')
  })
  after(() => oauth.service.app.close())

  const addUser = async () => oauth.service.addUser({ passwordHash: cheapHash(PASSWORD) })
  const authorizeUrl = async () => client.buildAuthorizationUrl(mobile, (await pkce()).parameters)
  const changePassword = async (user: TestUser) => {
    const { status } = await oauth.service.send({
      method: 'PATCH',
      url: `/api/users/${user.id}`,
      as: user,
      payload: { password: 'another horse', currentPassword: PASSWORD },
    })
    assert.equal(status, 200)
  }
  const signIn = async (browser: FormBrowser, user: TestUser, password = PASSWORD) =>
    browser.submit(await browser.open(await authorizeUrl()), '/login', { email: user.email, password })

  it('ends a sign-in that was checked before it and stored after it', async () => {
    const user = await addUser()
    const thief = new FormBrowser(oauth.url)
    const page = await thief.open(await authorizeUrl())
    interrupted.before = {
      statement: /^\s*INSERT/,
      model: 'Interaction',
      happens: () => changePassword(user),
    }
    const landing = await thief.submit(page, '/login', { email: user.email, password: PASSWORD })
    assert.doesNotMatch(landing.page, /<h1>Allow/)
    assert.equal(landing.url.searchParams.get('code'), null)
  })

  it('ends a sign-in that was read before it and signed the browser in after it', async () => {
    const user = await addUser()
    const thief = new FormBrowser(oauth.url)
    const page = await thief.open(await authorizeUrl())
    const held = await thief.submit(
      page,
      '/login',
      { email: user.email, password: PASSWORD },
      { redirect: 'manual' },
    )
    interrupted.after = { statement: /^\s*SELECT/, model: 'Interaction', happens: () => changePassword(user) }
    const consent = await thief.open(held.url)
    // The request under way may still show the consent page, but nobody can confirm it any more.
    if (/<h1>Allow/.test(consent.page)) {
      const landing = await thief.submit(consent, '/consent')
      assert.equal(landing.url.searchParams.get('code'), null)
    }
    assert.match((await thief.open(await authorizeUrl())).page, /<h1>Sign in<\/h1>/)
  })

  it('signs out a browser that has a request under way', async () => {
    const user = await addUser()
    const browser = new FormBrowser(oauth.url)
    assert.match((await signIn(browser, user)).page, /<h1>Allow/)
    assert.match((await browser.open(await authorizeUrl())).page, /<h1>Allow/)
    interrupted.after = { statement: /^\s*SELECT/, model: 'Session', happens: () => changePassword(user) }
    await browser.open(await authorizeUrl())
    assert.match((await browser.open(await authorizeUrl())).page, /<h1>Sign in<\/h1>/)
  })

  it('signs out a browser whose consent is under way, so that the app gets no code', async () => {
    const user = await addUser()
    const browser = new FormBrowser(oauth.url)
    const consent = await signIn(browser, user)
    assert.match(consent.page, /<h1>Allow/)
    interrupted.after = { statement: /^\s*SELECT/, model: 'Interaction', happens: () => changePassword(user) }
    const landing = await browser.submit(consent, '/consent')
    assert.equal(landing.url.searchParams.get('code'), null)
  })

  for (const step of ['consent', 'deny']) {
    it(`ends a sign-in during ${step}, which then shows the error page and stores nothing`, async () => {
      const user = await addUser()
      const browser = new FormBrowser(oauth.url)
      const consent = await signIn(browser, user)
      // The step reads the browser's session at its beginning and at its end.
      interrupted.after = { statement: /^\s*SELECT/, model: 'Session', happens: () => changePassword(user) }
      const landing = await browser.submit(consent, `/${step}`)
      assert.equal(landing.status, 400)
      assert.match(landing.page, /This sign-in has expired/)
      const kept = await database().query('SELECT model FROM oauth_artifacts WHERE account_id = $1', [
        user.id,
      ])
      assert.deepEqual(kept, [])
    })
  }

  it('signs in at once', async () => {
    const user = await addUser()
    await changePassword(user)
    const browser = new FormBrowser(oauth.url)
    const consent = await signIn(browser, user, 'another horse')
    assert.match(consent.page, /<h1>Allow/)
    const landing = await browser.submit(consent, '/consent')
    assert.notEqual(landing.url.searchParams.get('code'), null)
  })

  it('has no part in the sign-in of another user in the same browser, which signs the first user out', async () => {
    const [first, second] = [await addUser(), await addUser()]
    const browser = new FormBrowser(oauth.url)
    await signIn(browser, first)
    const url = await authorizeUrl()
    url.searchParams.set('prompt', 'login')
    const page = await browser.open(url)
    const landing = await browser.submit(page, '/login', { email: second.email, password: PASSWORD })
    // The library signs the first user out before it goes on.
    assert.match(landing.page, /op.logoutForm|<form[^>]*oauth\/logout/)
  })
})
