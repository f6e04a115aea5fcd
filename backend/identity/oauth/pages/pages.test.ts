import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import * as client from 'openid-client'
import { migrate } from '../../../database/migrations.ts'
import { openTestPglite } from '../../../testing/databases.ts'
import { FormBrowser, type Landing } from '../../../testing/form-browser.ts'
import {
  allow,
  type OAuthService,
  PASSWORD,
  pkce,
  startOAuthService,
  tokensFor,
} from '../../../testing/oauth.ts'
import { html } from './pages.ts'
import { cookieOf } from './sign-in-form.ts'

const VOID = new Set(['meta', 'input', 'br', 'link'])

/** Asserts that elements close in order, attributes are quoted, ids are unique, and each label is for a field. */
function assertValid(page: string): void {
  assert.match(page, /^<!DOCTYPE html>\n<html lang="en">/)
  const open: string[] = []
  const body = page.replace(/<!DOCTYPE html>/, '').replace(/<style>[\s\S]*?<\/style>/, '')
  for (const [, closing, name = '', attributes = ''] of body.matchAll(/<(\/?)([a-z0-9]+)([^>]*)>/g)) {
    assert.match(attributes, /^(\s+[a-z-]+(="[^"<>]*")?)*\s*\/?$/, `<${name}${attributes}>`)
    if (closing) assert.equal(open.pop(), name)
    else if (!VOID.has(name)) open.push(name)
  }
  assert.deepEqual(open, [])
  const ids = [...body.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id)
  assert.equal(new Set(ids).size, ids.length)
  for (const [, target] of body.matchAll(/\s(?:for|form|aria-describedby)="([^"]+)"/g))
    assert.ok(ids.includes(target))
  const fields = [...body.matchAll(/<input (?![^>]*type="hidden")[^>]*?\sid="([^"]+)"/g)]
  for (const [, id] of fields) assert.match(body, new RegExp(`<label for="${id}">`))
  assert.equal([...body.matchAll(/<h1/g)].length, 1)
  assert.match(body, /<title>[^<]+<\/title>/)
  assert.match(body, /<main>/)
  assert.match(body, /name="viewport" content="width=device-width, initial-scale=1"/)
}

function assertProtected({ headers, page }: Landing): void {
  const policy = headers.get('content-security-policy') ?? ''
  assert.match(policy, /^default-src 'none'; style-src 'sha256-[^ ]+'; form-action 'self'/)
  assert.match(policy, /base-uri 'none'; frame-ancestors 'none'$/)
  const style = /<style>([\s\S]*)<\/style>/.exec(page)?.[1] ?? ''
  assert.ok(policy.includes(createHash('sha256').update(style).digest('base64')))
  assert.equal(headers.get('referrer-policy'), 'same-origin')
  assert.equal(headers.get('x-frame-options'), 'DENY')
  assert.match(headers.get('cache-control') ?? '', /no-store/)
  assert.doesNotMatch(page, /<script|<img|<link|<iframe|javascript:| on[a-z]+=|style="/)
}

describe('the pages of the sign-in', () => {
  let oauth: OAuthService
  let mobile: client.Configuration
  before(async () => {
    const database = await openTestPglite()
    await migrate(database)
    oauth = await startOAuthService(database)
    mobile = await oauth.discover('mobile-app')
  })
  after(async () => {
    await oauth.service.app.close()
    await oauth.service.database.close()
  })

  async function begin(parameters: Record<string, string> = {}) {
    const browser = new FormBrowser(oauth.url)
    const { parameters: all } = await pkce(parameters)
    return { browser, page: await browser.open(client.buildAuthorizationUrl(mobile, all)) }
  }

  it('are valid HTML, with a policy that allows no script and nothing from elsewhere', async () => {
    const { browser, page } = await begin()
    const wrong = await browser.submit(page, '/login', { email: oauth.user.email, password: 'wrong' })
    const consent = await browser.submit(wrong, '/login', { email: oauth.user.email, password: PASSWORD })
    const signOut = await browser.open('/oauth/logout')
    const signedOut = await browser.submit(signOut, '/logout/confirm', { logout: 'yes' })
    const fault = await browser.open('/oauth/authorize?client_id=nobody')
    for (const landing of [page, wrong, consent, signOut, signedOut, fault]) {
      assertValid(landing.page)
      assertProtected(landing)
    }
    assert.match(
      page.headers.get('content-security-policy') ?? '',
      /form-action 'self' http:\/\/127\.0\.0\.1:49152;/,
    )
    const scheme = await begin({ redirect_uri: 'com.example.app:/callback' })
    assert.match(
      scheme.page.headers.get('content-security-policy') ?? '',
      /form-action 'self' com\.example\.app:;/,
    )
  })

  it('say which application asks and what for, in words, and escape what others wrote', async () => {
    const { browser, page } = await begin({
      scope: 'openid offline_access accounts:read transfers:write identity:verify',
      login_hint: '"><script>alert(1)</script>',
    })
    assert.match(page.page, /to continue to <strong>Example &lt;App&gt;<\/strong>/)
    assert.match(page.page, /value="&quot;&gt;&lt;script&gt;/)
    const consent = await browser.submit(page, '/login', { email: oauth.user.email, password: PASSWORD })
    assert.match(consent.page, /signed in as Alice &lt;Martin&gt;/)
    const asked = [...consent.page.matchAll(/<li>([^<]+)<\/li>/g)].map(([, text]) => text)
    assert.deepEqual(asked, [
      'know that it is you, by an identifier',
      'see the balance of your account',
      'transfer money from your account',
      'have travel documents checked in your name',
      'keep this access also while you are not using it',
    ])
    assert.match(consent.page, /cannot prove who they are/)
    assert.match(consent.page, /sent to 127\.0\.0\.1:49152/)
    assert.match(consent.page, />Deny<\/button>/)
  })

  it('show a wrong password as an alert, keep the address, and do not tell whether a user has it', async () => {
    const { browser, page } = await begin()
    const known = await browser.submit(page, '/login', { email: oauth.user.email, password: 'wrong' })
    assert.equal(known.status, 422)
    assert.match(known.page, /role="alert" id="problem"><p>The e-mail address or the password is wrong/)
    assert.match(
      known.page,
      new RegExp(`value="${oauth.user.email}" aria-invalid="true" aria-describedby="problem"`),
    )
    assert.doesNotMatch(known.page, /value="wrong"/)
    const unknown = await browser.submit(page, '/login', { email: 'nobody@example.com', password: 'wrong' })
    assert.equal(unknown.page.replace('nobody@example.com', oauth.user.email), known.page)
    for (const fields of [{}, { email: oauth.user.email }, { password: PASSWORD }] as Record<
      string,
      string
    >[]) {
      assert.match(
        (await browser.submit(page, '/login', fields)).page,
        /Enter your e-mail address and your password/,
      )
    }
    const tooLong = { email: oauth.user.email, password: 'x'.repeat(1025) }
    assert.equal((await browser.submit(page, '/login', tooLong)).status, 422)
    const nul = { email: 'alice\0@example.com', password: PASSWORD }
    assert.equal((await browser.submit(page, '/login', nul)).status, 422)
  })

  it('make the guesser wait, but not a browser in which the owner signed in before', async () => {
    const owner = await begin()
    const fields = { email: oauth.user.email, password: PASSWORD }
    await owner.browser.submit(owner.page, '/login', fields)
    const guesser = await begin()
    let last = guesser.page
    // The sixth guess has to wait; on a slow machine, where its wait has passed, a later guess has to.
    for (let guess = 0; guess < 6 || (last.status === 422 && guess < 9); guess++) {
      last = await guesser.browser.submit(guesser.page, '/login', { ...fields, password: `guess ${guess}` })
    }
    assert.equal(last.status, 429)
    const seconds = Number(last.headers.get('retry-after'))
    assert.ok(seconds >= 1)
    assert.match(
      last.page,
      new RegExp(`role="alert".*Too many attempts to sign in\\. Try again in ${seconds} second`),
    )
    const { parameters } = await pkce()
    await owner.browser
      .open('/oauth/logout')
      .then((page) => owner.browser.submit(page, '/confirm', { logout: 'yes' }))
    const again = await owner.browser.open(client.buildAuthorizationUrl(mobile, parameters))
    assert.match((await owner.browser.submit(again, '/login', fields)).page, /<h1>Allow/)
    await oauth.service.database.query('DELETE FROM sign_in_attempts')
  })

  it('take forms from themselves only', async () => {
    const { browser, page } = await begin()
    const id = /name="id" value="([^"]+)"/.exec(page.page)?.[1] ?? ''
    const post = (path: string, body: Record<string, string>, headers: Record<string, string> = {}) =>
      browser.open(path, { method: 'POST', body: new URLSearchParams(body), headers })
    const fields = { email: oauth.user.email, password: PASSWORD }
    for (const headers of [
      { origin: 'https://attacker.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ]) {
      assert.equal((await post('/api/login', { id, ...fields }, headers)).status, 403)
    }
    for (const wrong of ['', 'made-up', `${id}x`]) {
      const { status, page } = await post('/api/login', { id: wrong, ...fields })
      assert.equal(status, 400)
      assert.match(page, /expired/)
    }
    const elsewhere = new FormBrowser(oauth.url)
    const stolen = await elsewhere.open('/api/login', {
      method: 'POST',
      body: new URLSearchParams({ id, ...fields }),
    })
    assert.equal(stolen.status, 400, 'the id without the cookie')
    assert.equal(
      (await post('/oauth/interaction/consent', { id })).status,
      400,
      'consent before anybody signed in',
    )
    const json = { body: '{}', headers: { 'content-type': 'application/json' } }
    const wrongType = await browser.open('/oauth/interaction/consent', { method: 'POST', ...json })
    assert.equal(wrongType.status, 415)
    const own = await post(
      '/api/login',
      { id, ...fields },
      { origin: oauth.url, 'sec-fetch-site': 'same-origin' },
    )
    assert.match(own.page, /<h1>Allow/)
    assert.equal((await post('/api/login', { id, ...fields })).status, 400, 'the step is over')
  })

  it('post the password to /api/login, which still takes JSON', async () => {
    const { browser, page } = await begin()
    const form = new URLSearchParams({ email: oauth.user.email, password: PASSWORD })
    const open = (body: URLSearchParams | string, headers: Record<string, string> = {}) =>
      browser.open('/api/login', { method: 'POST', body, headers })
    const notOurs = await open(form)
    assert.equal(notOurs.status, 415, 'a form that is not of the page')
    assert.match(notOurs.page, /"code":"unsupported_media_type"/)
    const json = await open(JSON.stringify(Object.fromEntries(form)), { 'content-type': 'application/json' })
    assert.deepEqual([json.status, Object.keys(JSON.parse(json.page)).includes('accessToken')], [200, true])
    form.set('id', /name="id" value="([^"]+)"/.exec(page.page)?.[1] ?? '')
    const type = { 'content-type': 'Application/X-WWW-Form-Urlencoded ; charset=utf-8' }
    assert.match((await open(form.toString(), type)).page, /<h1>Allow/)
  })

  it('ask for consent each time an app returns, and sign the browser out when asked to', async () => {
    const { browser } = await begin()
    const { parameters } = await pkce()
    await allow(oauth, client.buildAuthorizationUrl(mobile, parameters), browser)
    const second = await browser.open(client.buildAuthorizationUrl(mobile, parameters))
    assert.match(second.page, /<h1>Allow/, 'signed in still, but asked (RFC 8252 section 8.6)')
    const stay = await browser.open('/oauth/logout')
    await browser.submit(stay, '/confirm')
    const out = await browser.open('/oauth/logout')
    const done = await browser.submit(out, '/confirm', { logout: 'yes' })
    assert.match(done.page, /<h1>Done<\/h1>/)
    const third = await browser.open(client.buildAuthorizationUrl(mobile, parameters))
    assert.match(third.page, /<h1>Sign in/)
  })

  it('do not reveal the cause of a fault of ours', async () => {
    const { browser, page } = await begin()
    await oauth.service.database.query('ALTER TABLE users RENAME TO users_gone')
    try {
      const { status, page: text } = await browser.submit(page, '/login', {
        email: 'a@example.com',
        password: 'x',
      })
      assert.equal(status, 500)
      assert.doesNotMatch(text, /users|relation/)
    } finally {
      await oauth.service.database.query('ALTER TABLE users_gone RENAME TO users')
    }
    await oauth.service.database.query('ALTER TABLE oauth_artifacts RENAME TO artifacts_gone')
    try {
      const body = new URLSearchParams({
        grant_type: 'refresh_token',
        client_id: 'mobile-app',
        refresh_token: 'x',
      })
      const response = await fetch(`${oauth.url}/oauth/token`, {
        method: 'POST',
        body,
        headers: { 'x-request-id': 'bad-1' },
      })
      assert.equal(response.status, 500)
      assert.doesNotMatch(await response.text(), /artifacts|relation/)
      assert.ok(
        oauth.service.log.some(
          (line) => line.requestId === 'bad-1' && /artifacts/.test(JSON.stringify(line)),
        ),
      )
    } finally {
      await oauth.service.database.query('ALTER TABLE artifacts_gone RENAME TO oauth_artifacts')
    }
  })

  it('finish what began before the signing keys changed', async () => {
    const { browser, page } = await begin()
    const { published, current } = oauth.service.keys
    const before = current.kid
    await oauth.service.database.query(
      "UPDATE signing_keys SET signs_until = now() - interval '1 second', published_until = now() + interval '1 hour'",
    )
    await oauth.service.keys.refresh()
    assert.notEqual(oauth.service.keys.current.kid, before)
    assert.equal(published.keys.length, 1)
    const consent = await browser.submit(page, '/login', { email: oauth.user.email, password: PASSWORD })
    assert.ok((await browser.submit(consent, '/consent')).url.searchParams.get('code'))
    const tokens = await tokensFor(oauth, mobile)
    const head = JSON.parse(Buffer.from(tokens.access_token.split('.')[0] ?? '', 'base64url').toString())
    assert.equal(head.kid, oauth.service.keys.current.kid)
  })
})

describe('html', () => {
  it('escapes text and leaves markup alone', () => {
    const inner = html`<b>${`<&>"'`}</b>`
    assert.equal(
      html`<p title="${'"'}">${[inner, inner]}${undefined}</p>`.text,
      '<p title="&quot;"><b>&lt;&amp;&gt;&quot;&#39;</b><b>&lt;&amp;&gt;&quot;&#39;</b></p>',
    )
  })
})

describe('cookieOf', () => {
  it('finds a cookie by its whole name', () => {
    assert.equal(cookieOf('xa=1; a=2=3; b=4', 'a'), '2=3')
    assert.equal(cookieOf('xa=1', 'a'), undefined)
    assert.equal(cookieOf(undefined, 'a'), undefined)
  })
})
