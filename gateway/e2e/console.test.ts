import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { freePort } from '../../backend/testing/free-port.ts'
import { accessibilityFindings } from './accessibility.ts'
import { launchChromium, NO_CHROMIUM, SCREENSHOTS } from './chromium.ts'
import { call } from './client.ts'
import { firstMoment } from './console-events.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const TOKEN = 'the-token-of-the-admin-listener-of-this-test'
const PATIENCE_MS = 30_000
const MARKUP = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'

if (NO_CHROMIUM === undefined) describe('the console in a browser', describeConsole)
// A test, because the runner does not count skipped suites.
else it('the console in a browser', { skip: NO_CHROMIUM })

function describeConsole(): void {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-console-'))
  let upstream: TestUpstream
  let gateway: TestGateway
  let browser: Browser
  before(async () => {
    writeFileSync(join(dir, 'token'), TOKEN)
    upstream = await startUpstream((req, res) => {
      res.statusCode = req.url?.endsWith('broken') ? 500 : 200
      res.end('whole')
    })
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        routes: [
          { path: '/private', auth: ['bearer'] },
          { path: '/pay/*', auth: ['bearer'], idempotency: {} },
          { path: '/open/*', auth: ['none'] },
        ],
      },
      limits: [
        { name: 'limited', path: '/open/limited', limit: 8, window: '1m', purpose: 'a test' },
        { name: 'large', path: '/open/large', limit: 5000, window: '1h', purpose: 'a test', mode: 'shadow' },
      ],
      env: { GATEWAY_ADMIN_TOKEN_FILE: join(dir, 'token') },
    })
    browser = await launchChromium()
    if (SCREENSHOTS !== undefined) mkdirSync(SCREENSHOTS, { recursive: true })
  })
  after(async () => {
    await gateway?.end('SIGKILL')
    upstream?.close()
    rmSync(dir, { recursive: true, force: true })
  })

  /** Opens the console in a page. `complaints` gets what the policy blocks, and faults of the scripts. */
  async function open() {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    const page = await context.newPage()
    const complaints: string[] = []
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('console', (message) => {
      // Chromium reports responses of 4xx.
      if (!/status of 401/.test(message.text())) complaints.push(message.text())
    })
    page.setDefaultTimeout(PATIENCE_MS)
    await page.goto(gateway.adminUrl)
    return { context, page, complaints }
  }

  async function signIn(page: Page, token: string): Promise<void> {
    await page.getByLabel('Admin token').fill(token)
    await page.keyboard.press('Enter')
  }

  const picture = async (page: Page, name: string) => {
    if (SCREENSHOTS !== undefined)
      await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true })
  }

  const overflow = (page: Page) => page.evaluate('document.documentElement.scrollWidth - window.innerWidth')

  it('asks for the token, and then shows live what the gateway does', async () => {
    const { context, page, complaints } = await open()
    await page.getByLabel('Admin token').waitFor()
    assert.equal(await page.title(), `signed out · ${new URL(gateway.adminUrl).host} · Countersign`)
    // The ellipsis, as pasted from a document, cannot be in a header field.
    await signIn(page, `${'x'.repeat(32)}…`)
    await page.getByRole('alert').getByText('A token has visible ASCII characters only.').waitFor()
    await signIn(page, 'x'.repeat(32))
    await page.getByRole('alert').getByText('This is not the token in force.').waitFor()
    await signIn(page, TOKEN)
    await page.getByText('live').waitFor()
    for (let i = 0; i < 10; i++) await call(`${gateway.url}/open/limited`)
    await call(`${gateway.url}/open/broken`)
    await call(`${gateway.url}/private`)
    await page.getByRole('row', { name: /^limit_exceeded .* 2$/ }).waitFor()
    await page.getByRole('row', { name: /^missing_token .* 1$/ }).waitFor()
    await page.getByRole('row', { name: /^address [0-9a-f]{12} .*8 of 8$/ }).waitFor()
    await page.getByRole('row', { name: /^large \(shadow\) \/open\/large 5,000 in 1h per caller/ }).waitFor()
    await page.getByRole('row', { name: new RegExp(`^${upstream.url} healthy`) }).waitFor()
    await page.getByRole('img', { name: /^Responses per second, the last .* min; now below 400 / }).waitFor()
    await page.getByText('ready', { exact: true }).waitFor()
    const authorization = `Bearer ${await upstream.issuer.token()}`
    for (const key of ['well', 'well', 'broken', 'broken']) {
      const headers = { authorization, 'idempotency-key': key }
      await call(`${gateway.url}/pay/${key}`, { method: 'POST', headers })
    }
    for (const row of [/^begun .* 2$/, /^replayed .* 1$/, /^refused: unknown .* 1$/])
      await page.locator('#idempotency').getByRole('row', { name: row }).waitFor()
    await page.locator('#kept-keys').getByText('2 of 1,000,000').waitFor()
    const unknown = page.getByRole('link', { name: 'Unknown outcome at /pay/*' })
    assert.equal(await unknown.getAttribute('href'), '/runbook#countersignpaymentunknown')

    writeFileSync(gateway.limitsFile, JSON.stringify({ limits: [{ name: MARKUP, [`\u2028${MARKUP}`]: 1 }] }))
    await page.getByRole('cell', { name: /^refused, .*<script>/s }).waitFor()
    // The console asks for the token in another tab, but not after a reload of the page.
    await page.reload()
    await page.getByText('live').waitFor()
    const other = await context.newPage()
    await other.goto(gateway.adminUrl)
    await other.getByLabel('Admin token').waitFor()
    assert.equal(await page.evaluate('window.hit'), undefined)
    await page.goto(`${gateway.adminUrl}/runbook#countersigndown`)
    await page.getByText('Values below are those of this gateway, where it has them.').waitFor()
    const commands = await page.locator('pre').first().textContent()
    const values = [
      `ADMIN=${gateway.adminUrl}`,
      `TOKEN_FILE=${dir}/token`,
      `TRAIL=${gateway.auditFile}`,
      `GATEWAY_CONFIG=${gateway.dir}/gateway.json`,
    ]
    for (const value of values) assert.ok(commands?.split(/\s/).includes(value), `${value} in ${commands}`)
    await page.getByRole('link', { name: 'First set up the shell' }).click()
    await page.waitForURL('**/runbook#runbook')
    await page.getByRole('link', { name: 'Console' }).click()
    await page.getByText('live').waitFor()
    await other.goto(`${gateway.adminUrl}/runbook`)
    await other.getByText('Values below are examples.').waitFor()
    assert.deepEqual(complaints, [], 'the policy blocks nothing that the page needs')
    assert.deepEqual(await context.cookies(), [])
    await context.close()
  })

  it('fits 360 and 1280 px, light and dark, without a finding of axe', async () => {
    const { context, page } = await open()
    const look = async (name: string) => {
      for (const width of [360, 1280]) {
        await page.setViewportSize({ width, height: 900 })
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme })
          await page.locator(`html[data-theme=${colorScheme}]`).waitFor()
          assert.deepEqual(await accessibilityFindings(page), [], `${name}, ${width} px, ${colorScheme}`)
          assert.ok(((await overflow(page)) as number) <= 0, `${name} scrolls sideways at ${width} px`)
          await picture(page, `${name}-${width}-${colorScheme}`)
        }
      }
    }
    await page.getByLabel('Admin token').waitFor()
    await look('sign-in')
    await signIn(page, TOKEN)
    await page.getByRole('row', { name: /^limited / }).waitFor()
    await look('console')
    await context.close()
  })

  it('works by keyboard alone: sign-in, pause, theme and sign-out', async () => {
    const { context, page } = await open()
    await page.locator('#token:focus').waitFor()
    await page.keyboard.type(TOKEN)
    await page.keyboard.press('Enter')
    await page.getByRole('row', { name: /^limited / }).waitFor()
    await page.getByRole('button', { name: 'Pause' }).focus()
    await page.keyboard.press('Space')
    await page.locator('#pause[aria-pressed=true]').waitFor()
    await page.keyboard.press('Tab')
    await page.locator('#theme:focus').waitFor()
    await page.keyboard.press('Enter')
    await page.locator('html[data-theme=light]').waitFor()
    await page.keyboard.press('Enter')
    await page.locator('html[data-theme=dark]').waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByLabel('Admin token').waitFor()
    await page.locator('html[data-theme=dark]').waitFor()
    await context.close()
  })

  it('greys its page when the gateway is gone, says since when, and goes on with the next gateway', async () => {
    const options = {
      config: {
        upstream: `http://127.0.0.1:${await freePort()}`,
        routes: [{ path: '/*', auth: ['none'] }],
      },
      env: { GATEWAY_ADMIN_PORT: String(await freePort()) },
    }
    const first = await startGateway(options)
    const page = await browser.newPage()
    page.setDefaultTimeout(PATIENCE_MS)
    await page.goto(first.adminUrl)
    await call(`${first.url}/x`)
    const link = page.locator('#attention a').first()
    await link.waitFor()
    await first.end('SIGKILL')
    const notice = page.locator('#notice')
    await notice
      .filter({
        hasText:
          /^No answer from .* since \d\d:\d\d:\d\d; the numbers are from then\. .*CountersignDown.*docs\/operate\/runbook\.md/,
      })
      .waitFor()
    assert.equal(await page.title(), `no answer · ${hostname()} · Countersign`)
    assert.equal(await page.locator('#health').textContent(), 'unknown')
    assert.equal(
      await page.evaluate("getComputedStyle(document.querySelector('#console')).filter"),
      'grayscale(1)',
    )
    assert.deepEqual(await accessibilityFindings(page), [])
    await picture(page, 'no-answer')
    await link.click()
    assert.equal(new URL(page.url()).pathname, '/')
    const next = await startGateway({ ...options, dir: first.dir })
    await notice.waitFor({ state: 'hidden' })
    await page.locator('#console:not(.old)').waitFor()
    assert.match(await page.title(), /^(?:ready|needs attention) · /)
    await call(`${next.url}/x`)
    await link.click()
    await page.waitForURL('**/runbook#*')
    await page.close()
    await next.end('SIGKILL')
  })

  it('keeps its links when its stream is refused, and says until when a past fault lasted', async () => {
    const context = await browser.newContext({ timezoneId: 'Asia/Kolkata' })
    const page = await context.newPage()
    page.setDefaultTimeout(PATIENCE_MS)
    await page.goto(gateway.adminUrl)
    const { point, state } = await firstMoment(gateway.adminUrl, TOKEN)
    const over = {
      ...{ alert: 'CountersignOverloaded', severity: 'ticket', text: 'Requests got 503 overloaded' },
      ...{ sinceMs: Date.UTC(2026, 10, 28, 3, 4, 5), endedMs: Date.UTC(2026, 10, 28, 3, 5, 7) },
    }
    const moment = JSON.stringify({ point, state: { ...state, attention: [over] } })
    const body = `event: history\ndata: []\n\nevent: moment\ndata: ${moment}\n\n`
    const answers = [{ contentType: 'text/event-stream', body }]
    const refused = { status: 503, body: '10 consoles are open, and no more are served\n' }
    await page.route('**/events', (route) => route.fulfill(answers.pop() ?? refused))
    await signIn(page, TOKEN)
    await page.locator('#attention').getByText('since 2026-11-28 08:34:05 until 08:35:07').waitFor()
    const said = /^Refused: 10 consoles are open, and no more are served\. The numbers are out of date\./
    await page.locator('#notice').filter({ hasText: said }).waitFor()
    assert.equal(await page.locator('#health').textContent(), 'unknown')
    await page.locator('#attention a').click()
    await page.waitForURL('**/runbook#countersignoverloaded')
    await context.close()
  })

  it('links the runbook while ten other consoles are open, and goes live once one of them is closed', async () => {
    const config = { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] }
    const { adminUrl, end } = await startGateway({ config })
    const others = await Promise.all(Array.from({ length: 10 }, () => fetch(`${adminUrl}/events`)))
    const page = await browser.newPage()
    page.setDefaultTimeout(PATIENCE_MS)
    await page.goto(adminUrl)
    const said = /^Refused: 10 consoles are open, and no more are served\. Another try follows\.$/
    await page.locator('#notice').filter({ hasText: said }).waitFor()
    assert.match(await page.title(), /^refused · /)
    assert.deepEqual(await accessibilityFindings(page), [])
    await picture(page, 'refused')
    const link = page.getByRole('link', { name: 'runbook' })
    assert.equal(await link.getAttribute('href'), '/runbook')
    await others[0]?.body?.cancel()
    await page.getByText('live').waitFor()
    await link.waitFor({ state: 'hidden' })
    await page.close()
    await end('SIGKILL')
  })

  it('shows markup in any text as plain text', async () => {
    const { context, page } = await open()
    const moment = await firstMoment(gateway.adminUrl, TOKEN)
    const fault = `event: fault\ndata: {"reason":"over by now"}\n\n`
    const body = `event: history\ndata: []\n\n${fault}event: moment\ndata: ${JSON.stringify(withMarkup(moment))}\n\n`
    await page.route('**/events', (route) => route.fulfill({ contentType: 'text/event-stream', body }))
    await signIn(page, TOKEN)
    await page
      .getByRole('row', { name: /<img src=x .*<script>/ })
      .first()
      .waitFor()
    assert.equal(await page.locator('main img, main script').count(), 0)
    // The stream has ended after the fault, so the notice says something else.
    assert.doesNotMatch((await page.locator('#notice').textContent()) ?? '', /over by now/)
    assert.equal(await page.evaluate('window.hit'), undefined)
    await context.close()
  })
}

/** A value with markup in the place of every text. */
function withMarkup(value: unknown): unknown {
  if (typeof value === 'string') return MARKUP
  if (Array.isArray(value)) return value.map(withMarkup)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, withMarkup(part)]))
}
