import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { after, before, beforeEach, describe, it } from 'node:test'
import * as client from 'openid-client'
import { FormBrowser, type Landing } from '../../backend/testing/form-browser.ts'
import { call } from './client.ts'
import { ALICE, discover, REDIRECTS } from './oauth-client.ts'
import { startService, type TestService } from './running-service.ts'

describe('the sign-in page behind the gateway', () => {
  let service: TestService
  let start: URL
  let browser: FormBrowser
  before(async () => {
    service = await startService({
      limits: 'shipped',
      // Its time is slowed down ten times, so that a busy machine makes all guesses within a minute.
      env: {
        TIME_LAPSE: '0.1',
        TIME_LAPSE_FROM: String(Date.now()),
        NODE_OPTIONS: `--import ${new URL('time-lapse.ts', import.meta.url).href}`,
      },
    })
    const mobile = await discover(service, 'mobile-app')
    start = client.buildAuthorizationUrl(mobile, {
      redirect_uri: REDIRECTS['mobile-app'],
      scope: 'openid',
      code_challenge: 'a'.repeat(43),
      code_challenge_method: 'S256',
    })
  })
  after(() => service.end())

  const decisions = (decision: string) =>
    `gateway_rate_limit_decisions_total{limit="login",decision="${decision}"}`
  beforeEach(() => {
    browser = new FormBrowser(service.url)
  })

  it('keeps its own content security policy, and has each mandatory header once', async () => {
    const page = await browser.open(start)
    assert.equal(page.status, 200)
    const { rawHeaders } = await call(page.url.href)
    const named = (headers: readonly string[], name: string) =>
      headers.filter((_, index) => index % 2 === 1 && headers[index - 1]?.toLowerCase() === name)
    assert.deepEqual(named(rawHeaders, 'cache-control'), ['no-store'])
    assert.deepEqual(named(rawHeaders, 'x-frame-options'), ['DENY'])
    assert.deepEqual(named(rawHeaders, 'x-content-type-options'), ['nosniff'])
    assert.deepEqual(named(rawHeaders, 'strict-transport-security'), ['max-age=31536000; includeSubDomains'])
    assert.equal(named(rawHeaders, 'x-request-id').length, 1)
    assert.equal(named(rawHeaders, 'content-security-policy').length, 1)
    const policy = page.headers.get('content-security-policy') ?? ''
    assert.match(
      policy,
      /^default-src 'none'; style-src 'sha256-[^ ]+'; form-action 'self' http:\/\/127\.0\.0\.1:49152;/,
    )
    assert.match(policy, /frame-ancestors 'none'$/)
    assert.equal(page.headers.get('cache-control'), 'no-store')
    assert.equal(page.headers.get('referrer-policy'), 'same-origin')
  })

  it('leaves no password, no code and no query in the audit trail', async () => {
    const page = await browser.open(start)
    const wrong = await browser.submit(page, '/login', { ...ALICE, password: 'a-wrong-guess' })
    assert.equal(wrong.status, 422)
    const [request] = await service.gateway.pair(String(wrong.headers.get('x-request-id')))
    assert.deepEqual([request.method, request.path], ['POST', '/api/login'])
    assert.doesNotMatch(JSON.stringify(service.gateway.audit()), /a-wrong-guess|alice@|code_challenge|\?id=/)
  })

  it('shares one row with POST /api/login, which counts guesses at both together', async () => {
    const page = await browser.open(start)
    const guessAtPage = (password: string): Promise<Landing> =>
      browser.submit(page, '/login', { email: 'nobody@example.com', password })
    const guessAtApi = (password: string) =>
      call(`${service.url}/api/login`, { method: 'POST', body: { email: 'nobody@example.com', password } })
    const statuses: number[] = []
    for (let guess = 0; guess < 3; guess++) {
      statuses.push((await guessAtPage(`page ${guess}`)).status, (await guessAtApi(`api ${guess}`)).status)
    }
    assert.deepEqual(statuses.slice(0, 4), [422, 401, 422, 401])
    assert.equal(statuses[5], 429)
    const refused = await guessAtPage('one more')
    assert.equal(refused.status, 429)
    assert.match(refused.headers.get('ratelimit-policy') ?? '', /^"login";q=5;w=60/)
    assert.ok(Number(refused.headers.get('retry-after')) > 0)
    assert.equal(await service.gateway.metric(decisions('allowed')), 5, 'the five of the row, from both')
  })

  it('shows a person a page, and a program JSON, when the row is used up', async () => {
    const page = await browser.open(start)
    const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
    const id = /name="id" value="([^"]+)"/.exec(page.page)?.[1] ?? ''
    const post = (accepted: string) =>
      browser.open('/api/login', {
        method: 'POST',
        headers: { accept: accepted },
        body: new URLSearchParams({ id, email: 'nobody@example.com', password: 'wrong' }),
      })
    let sixth = await post(accept)
    for (let guess = 1; guess < 6; guess++) sixth = await post(accept)
    assert.equal(sixth.status, 429)
    assert.equal(sixth.headers.get('content-type'), 'text/html; charset=utf-8')
    assert.match(
      sixth.headers.get('content-security-policy') ?? '',
      /^default-src 'none'; style-src 'sha256-/,
    )
    assert.match(sixth.headers.get('ratelimit-policy') ?? '', /^"login";q=5;w=60/)
    assert.equal(sixth.headers.get('x-frame-options'), 'DENY')
    assert.match(sixth.page, /<h1>Too Many Requests<\/h1>/)
    assert.ok(sixth.page.includes(`try again in ${sixth.headers.get('retry-after')} second`))
    assert.ok(sixth.page.includes(`request <span>${sixth.headers.get('x-request-id')}<`))
    const program = await post('*/*')
    assert.equal(program.headers.get('content-type'), 'application/problem+json')
    assert.equal(JSON.parse(program.page).code, 'limit_exceeded')
  })

  it('posts its form to /api/login, and no other path takes it', async () => {
    const page = await browser.open(start)
    const actions = [...page.page.matchAll(/action="([^"]+)"/g)].map(([, action]) => action)
    assert.deepEqual(actions, ['/api/login', '/oauth/interaction/deny'])
    const id = /name="id" value="([^"]+)"/.exec(page.page)?.[1] ?? ''
    const body = new URLSearchParams({ id, ...ALICE })
    for (const path of ['/oauth/interaction', '/oauth/interaction/login', '/oauth/login', '/API/login']) {
      const { status } = await browser.open(path, { method: 'POST', body })
      assert.ok([404, 405, 429].includes(status), `${path}: ${status}`)
    }
  })

  it('refreshes and pushed requests, which need no token, are limited by address', async () => {
    const agent = new Agent({ keepAlive: true })
    const ask = async (path: string) =>
      (await call(`${service.url}${path}`, { method: 'POST', body: {}, agent })).status
    const all = async (path: string, count: number) => {
      const statuses: number[] = []
      for (let n = 0; n < count; n++) statuses.push(await ask(path))
      return statuses
    }
    const refreshed = await all('/api/session/refresh', 62)
    assert.deepEqual([refreshed.indexOf(429), refreshed[59]], [60, 400])
    const pushed = await all('/oauth/par', 122)
    assert.equal(pushed.at(-1), 429)
    agent.destroy()
    const allowed = 'gateway_rate_limit_decisions_total{limit="oauth",decision="allowed"}'
    assert.equal(await service.gateway.metric(allowed), 120)
  })
})
