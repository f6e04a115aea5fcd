import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import * as client from 'openid-client'
import { type Browser, chromium, type Page } from 'playwright-core'
import { migrate } from '../../database/migrations.ts'
import { openPglite } from '../../database/pglite.ts'
import { type OAuthService, PASSWORD, pkce, startOAuthService } from '../../testing/oauth.ts'

const CHROMIUM = '/usr/bin/chromium'
const WIDTHS = [360, 1280]

if (existsSync(CHROMIUM)) describe('the sign-in in a browser', describeBrowser)
// A test, not a suite: the runner counts only skipped tests, and nobody is to overlook this.
else it('the sign-in in a browser', { skip: `${CHROMIUM} is not installed` })

function describeBrowser(): void {
  let oauth: OAuthService
  let mobile: client.Configuration
  let browser: Browser
  let app: Server
  let appUrl: string
  before(async () => {
    const database = await openPglite()
    await migrate(database)
    oauth = await startOAuthService(database)
    mobile = await oauth.discover('mobile-app')
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
    app = createServer((_request, response) => response.end('back in the app')).listen(0, '127.0.0.1')
    await new Promise((resolve) => app.once('listening', resolve))
    appUrl = `http://127.0.0.1:${(app.address() as AddressInfo).port}/callback`
  })
  after(async () => {
    await browser?.close()
    app?.closeAllConnections()
    app?.close()
    await oauth.service.app.close()
    await oauth.service.database.close()
  })

  /** A page of a fresh browser at the sign-in; it notes what the policy blocks. */
  async function begin(width: number, options: { readonly javaScriptEnabled: boolean }) {
    const context = await browser.newContext({ viewport: { width, height: 740 }, ...options })
    const page = await context.newPage()
    const complaints: string[] = []
    page.on('console', (message) => {
      // Chromium reports answers of 4xx, and asks the app's server for an icon.
      if (!/status of 4\d\d|favicon/.test(message.text())) complaints.push(message.text())
    })
    const { verifier, parameters } = await pkce({ redirect_uri: appUrl })
    await page.goto(client.buildAuthorizationUrl(mobile, parameters).href)
    return { context, page, verifier, complaints }
  }

  /** Role and name of what has the focus, as assistive technology is told. */
  async function focused(page: Page): Promise<string> {
    const snapshot = await page.locator(':focus').ariaSnapshot()
    return /^- (\w+ "[^"]*")/.exec(snapshot)?.[1] ?? snapshot
  }

  for (const width of WIDTHS) {
    it(`goes from the first page to the app by keyboard alone, ${width} px wide, without a script`, async () => {
      const { context, page, verifier, complaints } = await begin(width, { javaScriptEnabled: false })
      const press = async (key: string, expected: string) => {
        await page.keyboard.press(key)
        assert.equal(await focused(page), expected)
      }
      assert.equal(await focused(page), 'textbox "E-mail address"')
      await page.keyboard.type(oauth.user.email)
      await press('Tab', 'textbox "Password"')
      await page.keyboard.type('wrong')
      await page.keyboard.press('Enter')
      await page.getByRole('alert').waitFor()
      assert.match(await page.title(), /^Error: /)
      assert.equal(await focused(page), 'textbox "Password"', 'the field to fill in again has the focus')
      await page.keyboard.type(PASSWORD)
      await press('Tab', 'button "Sign in"')
      await press('Tab', 'button "Cancel"')
      await press('Shift+Tab', 'button "Sign in"')
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: /^Allow/ }).waitFor()
      await press('Tab', 'link "sign out"')
      await press('Tab', 'button "Allow"')
      await press('Tab', 'button "Deny"')
      await press('Shift+Tab', 'button "Allow"')
      await page.keyboard.press('Enter')
      await page.waitForURL(/\/callback\?/)
      assert.equal(await page.locator('body').innerText(), 'back in the app')
      assert.deepEqual(complaints, [], 'the policy let the redirect through')
      const checks = { pkceCodeVerifier: verifier, expectedState: 'a-state' }
      const tokens = await client.authorizationCodeGrant(mobile, new URL(page.url()), checks)
      assert.ok(tokens.access_token)
      await context.close()
    })

    it(`fits ${width} px, with targets and contrast large enough, and shows where the focus is`, async () => {
      const { context, page } = await begin(width, { javaScriptEnabled: true })
      for (const step of ['sign-in', 'error', 'consent']) {
        const overflow = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth')
        assert.ok((overflow as number) <= 0, `${step} scrolls sideways`)
        for (const button of await page.getByRole('button').all()) {
          const box = await button.boundingBox()
          assert.ok(box !== null && box.height >= 44 && box.width >= 44, step)
        }
        assert.deepEqual(await page.evaluate(FAINT_TEXT), [], step)
        await page.keyboard.press('Tab')
        const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')
        assert.equal(outline, 'solid', step)
        if (step === 'consent') break
        await page.getByLabel('E-mail address').fill(oauth.user.email)
        await page.getByLabel('Password').fill(step === 'sign-in' ? 'wrong' : PASSWORD)
        await page.keyboard.press('Enter')
        await page.getByRole(step === 'sign-in' ? 'alert' : 'list').waitFor()
      }
      await context.close()
    })
  }

  it('lets a browser sign out in which nobody is signed in, by a form that sends itself', async () => {
    const { context, page, complaints } = await begin(360, { javaScriptEnabled: true })
    await page.goto(`${oauth.url}/oauth/logout`)
    await page.getByRole('heading', { name: 'Done' }).waitFor()
    assert.deepEqual(complaints, [])
    await context.close()
  })
}

/** Texts whose contrast with what is behind them is below 7:1 (WCAG 2.2 success criterion 1.4.6). */
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
