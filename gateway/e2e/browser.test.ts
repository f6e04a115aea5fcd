import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import * as client from 'openid-client'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { accessibilityFindings } from './accessibility.ts'
import { launchChromium, NO_CHROMIUM, SCREENSHOTS } from './chromium.ts'
import { call } from './client.ts'
import { ALICE, discover } from './oauth-client.ts'
import { commonService, type TestService } from './running-service.ts'

if (NO_CHROMIUM === undefined) describe('a person with a browser', describeBrowser)
// A test, because the runner does not count skipped suites.
else it('a person with a browser', { skip: NO_CHROMIUM })

function describeBrowser(): void {
  let service: TestService
  let mobile: client.Configuration
  let browser: Browser
  let app: Server
  let appUrl: string
  before(async () => {
    service = await commonService()
    mobile = await discover(service, 'mobile-app')
    browser = await launchChromium()
    app = createServer((_request, response) => response.end('back in the app')).listen(0, '127.0.0.1')
    await once(app, 'listening')
    appUrl = `http://127.0.0.1:${(app.address() as AddressInfo).port}/callback`
    if (SCREENSHOTS !== undefined) mkdirSync(SCREENSHOTS, { recursive: true })
  })
  after(() => {
    app?.closeAllConnections()
    app?.close()
  })

  /** Opens the sign-in in a fresh browser, and notes what the policy of a page blocks. */
  async function begin(width: number, scripts: boolean) {
    const context = await browser.newContext({
      viewport: { width, height: 740 },
      javaScriptEnabled: scripts,
    })
    const page = await context.newPage()
    const complaints: string[] = []
    page.on('console', (message) => {
      // Chromium reports responses of 4xx, and asks for an icon.
      if (!/status of 4\d\d|favicon/.test(message.text())) complaints.push(message.text())
    })
    const pkceCodeVerifier = client.randomPKCECodeVerifier()
    const expectedState = client.randomState()
    const start = client.buildAuthorizationUrl(mobile, {
      redirect_uri: appUrl,
      scope: 'openid offline_access accounts:read transfers:write',
      prompt: 'consent',
      code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: 'S256',
      state: expectedState,
    })
    await page.goto(start.href)
    return { context, page, complaints, checks: { pkceCodeVerifier, expectedState } }
  }

  async function picture(page: Page, name: string): Promise<void> {
    if (SCREENSHOTS !== undefined) await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) })
  }

  /** Role and name of the focused element, as assistive technology gets them. */
  async function focused(page: Page): Promise<string> {
    const snapshot = await page.locator(':focus').ariaSnapshot()
    return /^- (\w+ "[^"]*")/.exec(snapshot)?.[1] ?? snapshot
  }

  async function balanceWith(page: Page, checks: client.AuthorizationCodeGrantChecks) {
    const tokens = await client.authorizationCodeGrant(mobile, new URL(page.url()), checks)
    return call(`${service.url}/api/balance`, { headers: { authorization: `Bearer ${tokens.access_token}` } })
  }

  it('lets an app read their balance, by keyboard alone, 360 px wide, with scripts turned off', async () => {
    const { context, page, complaints, checks } = await begin(360, false)
    const press = async (key: string, expected: string) => {
      await page.keyboard.press(key)
      assert.equal(await focused(page), expected)
    }
    assert.equal(await focused(page), 'textbox "E-mail address"')
    await picture(page, '360-sign-in')
    await page.keyboard.type(ALICE.email)
    await press('Tab', 'textbox "Password"')
    await page.keyboard.type('wrong')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').waitFor()
    await picture(page, '360-wrong')
    assert.equal(await focused(page), 'textbox "Password"')
    await page.keyboard.type(ALICE.password)
    await press('Tab', 'button "Sign in"')
    await picture(page, '360-focus')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: /^Allow/ }).waitFor()
    await picture(page, '360-consent')
    await press('Tab', 'link "sign out"')
    await press('Tab', 'button "Allow"')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/callback\?/)
    assert.equal(await page.locator('body').innerText(), 'back in the app')
    assert.deepEqual(complaints, [], 'the policy of the page came through and blocks nothing it needs')
    const balance = await balanceWith(page, checks)
    assert.deepEqual([balance.status, balance.json().balance], [200, '1000.00'])
    await context.close()
  })

  it('sees pages that fit 360 and 1280 px, are easy to read and press, and show where the focus is', async () => {
    const { context, page } = await begin(360, true)
    const look = async (name: string) => {
      for (const width of [360, 1280]) {
        const what = `${name}, ${width} px`
        await page.setViewportSize({ width, height: 740 })
        const overflow = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth')
        assert.ok((overflow as number) <= 0, `${what}, scrolls sideways`)
        for (const button of await page.getByRole('button').all()) {
          const box = await button.boundingBox()
          assert.ok(box !== null && box.height >= 44 && box.width >= 44, `${what}, has a small button`)
        }
        assert.deepEqual(await page.evaluate(FAINT_TEXT), [], `${what}, has faint text`)
        assert.deepEqual(await accessibilityFindings(page), [], what)
        await page.keyboard.press('Tab')
        const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')
        assert.equal(outline, 'solid', what)
        await picture(page, `${width}-${name}`)
      }
    }
    await look('sign-in')
    await signIn(page, 'wrong')
    await page.getByRole('alert').waitFor()
    await look('wrong')
    await signIn(page, ALICE.password)
    await page.getByRole('heading', { name: /^Allow/ }).waitFor()
    await look('consent')
    await page.goto(`${service.url}/oauth/logout`)
    await look('sign-out')
    if (SCREENSHOTS !== undefined) await page.goto(`${service.url}/oauth/authorize?client_id=nobody`)
    await picture(page, 'error')
    await context.close()
  })

  it('reads what the API does and tries it, at any width, light and dark, without a finding of axe', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
    const complaints: string[] = []
    page.on('console', (message) => complaints.push(message.text()))
    page.on('pageerror', (fault) => complaints.push(String(fault)))
    page.on('request', (request) => {
      if (!/^data:/.test(request.url()) && !request.url().startsWith(service.url))
        complaints.push(request.url())
    })
    await page.goto(`${service.url}/docs`)
    const look = async (name: string, part?: string) => {
      for (const [width, colorScheme] of [
        [360, 'light'],
        [1280, 'dark'],
      ] as const) {
        await page.setViewportSize({ width, height: 900 })
        await page.emulateMedia({ colorScheme })
        const overflow = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth')
        assert.ok((overflow as number) <= 0, `${name} scrolls sideways at ${width} px`)
        await picture(page, `${name}-${width}-${colorScheme}`)
        assert.deepEqual(await accessibilityFindings(page, part), [], `${name}, ${width} px, ${colorScheme}`)
      }
    }
    await page.getByRole('heading', { name: 'Countersign', exact: true }).waitFor()
    const tokens = await call(`${service.url}/api/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(ALICE),
    })
    await page.getByRole('button', { name: 'Authorize' }).click()
    await page.locator('#auth-bearer-value').fill(tokens.json<{ accessToken: string }>().accessToken)
    // The page behind this dialog is looked at below.
    await look('docs-authorize', '.modal-ux')
    await page.locator('.modal-ux').getByRole('button', { name: 'Authorize' }).first().click()
    await page.getByRole('button', { name: 'Close' }).first().click()
    /** Sends an operation with the values that its form begins with. */
    const send = async (operation: string) => {
      const block = page.locator(`[id$=-${operation}]`)
      await block.locator('.opblock-summary-control').click()
      await block.getByRole('button', { name: 'Try it out' }).click()
      await block.getByRole('button', { name: 'Execute' }).click()
      return block.locator('.live-responses-table')
    }
    await (await send('getBalance')).getByText('"1000.00"').first().waitFor()
    await (await send('createTransfer')).getByText('"requestId"').first().waitFor()
    await look('docs')
    assert.deepEqual(
      complaints.filter((line) => !/status of 4\d\d/.test(line)),
      [],
      'the policy blocks nothing that the page needs',
    )
    await page.close()
  })

  async function signIn(page: Page, password: string): Promise<void> {
    await page.getByLabel('E-mail address').fill(ALICE.email)
    await page.getByLabel('Password').fill(password)
    await page.keyboard.press('Enter')
  }

  it('reads why the gateway refuses, on a page that fills a phone', async () => {
    const page = await browser.newPage()
    for (const width of [360, 1280]) {
      await page.setViewportSize({ width, height: 740 })
      await page.goto(`${service.url}/nowhere`)
      await page.getByText('code not_found').waitFor()
      const bottom = await page.evaluate("document.querySelector('main').getBoundingClientRect().bottom")
      if (width === 360) assert.equal(bottom, 740)
      assert.deepEqual(await page.evaluate(FAINT_TEXT), [])
      assert.deepEqual(await accessibilityFindings(page), [])
      await picture(page, `${width}-refusal`)
    }
    await page.close()
  })

  it('who says no sends the browser back to the app without a code', async () => {
    const { context, page } = await begin(360, false)
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.waitForURL(/\/callback\?/)
    const response = new URL(page.url()).searchParams
    assert.deepEqual([response.get('error'), response.get('code')], ['access_denied', null])
    await context.close()
  })

  it('can be signed out by a form that sends itself, also where nobody is signed in', async () => {
    const { context, page, complaints } = await begin(360, true)
    await page.goto(`${service.url}/oauth/logout`)
    await page.getByRole('heading', { name: 'Done' }).waitFor()
    assert.deepEqual(complaints, [])
    await context.close()
  })

  it('cannot sign in within a frame of another page', async () => {
    const { context, page } = await begin(1280, true)
    const framed = await inFrame(context, page.url())
    assert.equal(framed, 'chrome-error://chromewebdata/')
    await context.close()
  })

  /** The address that a frame shows in a page of another origin. */
  async function inFrame(context: BrowserContext, url: string): Promise<string | undefined> {
    const page = await context.newPage()
    await page.goto(appUrl)
    await page.setContent(`<iframe src="${url}"></iframe>`)
    await page.waitForLoadState('networkidle')
    return page.frames()[1]?.url()
  }
}

/** Texts with a contrast below 7:1 to their background (WCAG 2.2 success criterion 1.4.6). */
const FAINT_TEXT = `(() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number)
  const luminance = (color) => {
    const [r, g, b] = channels(color).map((value) => {
      const share = value / 255
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor
      if (channels(color)[3] !== 0) return color
    }
    return 'rgb(255, 255, 255)'
  }
  return [...document.querySelectorAll('main *')]
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ''))
    .filter((element) => {
      const [light, dark] = [luminance(getComputedStyle(element).color), luminance(behind(element))].sort((a, b) => b - a)
      return (light + 0.05) / (dark + 0.05) < 7
    })
    .map((element) => element.textContent)
})()`
