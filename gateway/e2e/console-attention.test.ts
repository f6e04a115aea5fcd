import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it, type TestContext } from 'node:test'
import type { Page } from 'playwright-core'
import { freePort } from '../../backend/testing/free-port.ts'
import { NO_REDIS, startRedis } from '../store/redis-server.test-support.ts'
import { accessibilityFindings } from './accessibility.ts'
import { launchChromium, NO_CHROMIUM, SCREENSHOTS } from './chromium.ts'
import { call } from './client.ts'
import { type GatewayOptions, startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeServerCertificate, makeTlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const PATIENCE_MS = 30_000
const NO_PRLIMIT = spawnSync('prlimit', ['--version']).error !== undefined && 'needs prlimit (util-linux)'

if (NO_CHROMIUM === undefined) describe('what needs attention, in a browser', describeAttention)
else it('what needs attention, in a browser', { skip: NO_CHROMIUM })

/** Makes each fault for real. The console's first line must name it, and link to its chapter of the runbook. */
function describeAttention(): void {
  /** One page for all tests. It keeps nothing, because each console is an origin of its own. */
  let page: Page
  let upstream: TestUpstream
  before(async () => {
    page = await (await launchChromium()).newPage()
    page.setDefaultTimeout(PATIENCE_MS)
    upstream = await startUpstream((req, res) => {
      if (req.url === '/hangs') return
      res.statusCode = req.url === '/broken' ? 503 : 200
      res.end('whole')
    })
  })
  after(async () => {
    await page?.close()
    upstream?.close()
  })

  async function started(t: TestContext, options: Partial<GatewayOptions> = {}) {
    const config = { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }], ...options.config }
    const gateway = await startGateway({ ...options, config })
    t.after(() => gateway.end('SIGKILL'))
    await show(gateway)
    return gateway
  }

  async function show({ adminUrl }: TestGateway): Promise<void> {
    await page.setViewportSize({ width: 1280, height: 900 })
    await page.goto(adminUrl)
  }

  async function firstLineIs(alert: string, says: RegExp): Promise<void> {
    const first = page.locator('#attention li').first()
    await first.filter({ hasText: says }).waitFor()
    assert.match((await first.textContent()) ?? '', / since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d $/)
    assert.match(await page.title(), new RegExp(`^n.* · ${hostname()} · Countersign$`))
    await first.getByRole('link').click()
    await page.locator(`#${alert.toLowerCase()}`).filter({ hasText: alert }).waitFor()
    assert.equal(new URL(page.url()).pathname + new URL(page.url()).hash, `/runbook#${alert.toLowerCase()}`)
  }

  describe('on one gateway, where each fault is worse than those before', () => {
    let gateway: TestGateway
    before(async () => {
      gateway = await startGateway({
        config: {
          upstream: upstream.url,
          upstreams: { default: { breaker: { failures: 2, openMs: 60_000 } } },
          routes: [{ path: '/*', auth: ['none'] }],
        },
        limits: [{ name: 'tight', path: '/tight', limit: 1, window: '1h', purpose: 'a test' }],
      })
    })
    after(() => gateway?.end('SIGKILL'))
    beforeEach(() => show(gateway))

    it('is nothing at first: one line says so, and header and title name the host', async () => {
      await page.getByText('Nothing.', { exact: true }).waitFor()
      await page.getByText('ready', { exact: true }).waitFor()
      assert.equal(await page.title(), `ready · ${hostname()} · Countersign`)
      assert.equal(await page.locator('#idempotency').isVisible(), false, 'no row has idempotency')
      assert.equal(
        await page.locator('#host').textContent(),
        `${hostname()}, ${new URL(gateway.adminUrl).host}`,
      )
      const since = page.locator('#config td[title$=" UTC"]').first()
      assert.match((await since.textContent()) ?? '', /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
      await pictures('all-well')
    })

    it('a limit that is saturated', async () => {
      for (let i = 0; i < 20; i++) await call(`${gateway.url}/tight`)
      await firstLineIs('CountersignLimitSaturated', /^Limit tight is saturated.*\d+ % of its requests/)
    })

    it('an edit that is refused', async () => {
      writeFileSync(gateway.limitsFile, '{"limits":[{"path":"/a","limit":0,"window":"1m","purpose":"x"}]}')
      await firstLineIs(
        'CountersignReloadFailed',
        /^The edit of limits\.json is refused.*\$\.limits\[0\]\.limit: must be/,
      )
    })

    it('a circuit breaker that is open', async () => {
      for (let i = 0; i < 5; i++) await call(`${gateway.url}/broken`)
      await firstLineIs(
        'CountersignBreakerOpen',
        /^Circuit breaker of http\S+ is open.*last failure: status 503/,
      )
    })

    it('an audit trail that cannot be written', { skip: NO_PRLIMIT }, async () => {
      await call(`${gateway.url}/x`)
      const bytes = statSync(gateway.auditFile).size + 50
      spawnSync('prlimit', ['--pid', String(gateway.process.child.pid), `--fsize=${bytes}:`])
      await call(`${gateway.url}/x`)
      await page.getByText('not ready: the audit trail cannot be written').waitFor()
      assert.equal(await page.locator('#attention li').nth(1).getByRole('link').textContent(), 'Not ready')
      await firstLineIs('CountersignAuditNotWritten', /^The audit trail cannot be written.*EFBIG/)
    })
  })

  describe('on one gateway that is edited, and then killed', () => {
    let gateway: TestGateway
    const base = () => ({ upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] })
    const become = async (config: object) => {
      await gateway.become({ config: { ...base(), ...config } })
      await show(gateway)
    }
    const again = async () => {
      gateway = await startGateway({ config: {}, dir: gateway.dir })
      await show(gateway)
    }
    before(async () => {
      gateway = await startGateway({ config: base() })
    })
    after(() => gateway?.end('SIGKILL'))

    it('maintenance that is on, though the gateway is ready and no alert fires', async () => {
      await become({ maintenance: { purpose: 'back at 6', retryAfterSeconds: 60 } })
      // Requests that were refused before the first look are not counted.
      await page.locator('#attention').getByText('0 requests refused').waitFor()
      for (let i = 0; i < 3; i++) assert.equal((await call(`${gateway.url}/x`)).status, 503)
      await firstLineIs(
        'Maintenance',
        /^Maintenance is on: all routes.*3 requests refused in the last minute/,
      )
    })

    it('a group whose only upstream is down, beside a group that is up', async () => {
      const port = await freePort()
      await become({
        upstreams: { payments: { targets: [`http://127.0.0.1:${port}`] } },
        routes: [
          { path: '/payments/*', auth: ['none'], upstream: 'payments' },
          { path: '/*', auth: ['none'] },
        ],
      })
      assert.equal((await call(`${gateway.url}/payments/x`)).status, 502)
      await page.locator('#health.bad').waitFor()
      await firstLineIs(
        'CountersignAllUpstreamsDown',
        new RegExp(`^Group payments has no upstream: its requests get 502.*ECONNREFUSED 127.0.0.1:${port}`),
      )
    })

    it('upstreams that are down', async () => {
      const port = await freePort()
      await become({ upstream: `http://127.0.0.1:${port}` })
      await call(`${gateway.url}/x`)
      if (SCREENSHOTS !== undefined) await page.locator('#attention li').nth(1).waitFor()
      await pictures('upstream-down')
      await firstLineIs(
        'CountersignAllUpstreamsDown',
        new RegExp(`^Group default has no upstream.*ECONNREFUSED 127.0.0.1:${port}`),
      )
    })

    it('one upstream of two that is down', async () => {
      const port = await freePort()
      const healthCheck = { path: '/', intervalMs: 1000, timeoutMs: 10_000, unhealthyAfter: 1 }
      const targets = [upstream.url, `http://127.0.0.1:${port}`]
      await become({ upstream: targets, upstreams: { default: { healthCheck } } })
      await firstLineIs('CountersignUpstreamDown', new RegExp(`^Upstream .*:${port} is down.*ECONNREFUSED`))
    })

    it('credentials that are wrong', async () => {
      await become({ routes: [{ path: '/*', auth: ['bearer'] }] })
      await page.getByText('Nothing.', { exact: true }).waitFor()
      const headers = { authorization: 'Bearer x.y.z' }
      for (let i = 0; i < 20; i++) await call(gateway.url, { headers })
      await firstLineIs(
        'CountersignAuthenticationFailures',
        /^Credentials are wrong: bearer.*100 % of them in the last minute: \w/,
      )
    })

    it('a start after a crash', async () => {
      await become({})
      await gateway.end('SIGKILL')
      await again()
      await firstLineIs('CountersignRestarting', /^Started again after a crash.*was killed/)
    })

    it('others who write to the trail, also after a restart', async () => {
      await show(gateway)
      await call(gateway.url)
      appendFileSync(gateway.auditFile, 'note to self\n')
      await call(gateway.url)
      const says =
        /^Others wrote to the trail.*audit\.ndjson\.\d+T\d+Z \(grown\): the gateway had left \d+ bytes and found/
      await firstLineIs('CountersignAuditForeign', says)
      await gateway.end()
      await again()
      await firstLineIs('CountersignAuditForeign', says)
    })
  })

  it('an upstream that takes connections and never responds', async (t) => {
    const gateway = await started(t)
    await page.getByText('Nothing.', { exact: true }).waitFor()
    const leave = () => fetch(`${gateway.url}/hangs`, { signal: AbortSignal.timeout(1500) })
    for (const { status } of await Promise.allSettled(Array.from({ length: 10 }, leave)))
      assert.equal(status, 'rejected')
    await page.locator('#routes td.warn').filter({ hasText: / ms$/ }).waitFor()
    await firstLineIs(
      'CountersignUpstreamHangs',
      /^Upstream http\S+ hangs.*100 % of its clients gave up waiting for a response in the last minute/,
    )
  })

  it('an issuer that has been away since before the start, with the refusals of its requests', async (t) => {
    const port = await freePort()
    const gateway = await started(t, {
      config: { routes: [{ path: '/*', auth: ['bearer'] }] },
      env: { GATEWAY_JWKS_URI: `http://127.0.0.1:${port}/jwks` },
    })
    const authorization = `Bearer ${await upstream.issuer.token({ sub: 'user' })}`
    await page.getByText('keys never fetched').waitFor()
    await page
      .locator('#attention li')
      .filter({ hasText: /^Keys of .* cannot be fetched/ })
      .waitFor()
    const { status } = await call(gateway.url, { headers: { authorization } })
    assert.equal(status, 503)
    await firstLineIs(
      'CountersignAuthenticationUnavailable',
      new RegExp(`^Requests get 503 keys_unavailable.*1 in the last minute.*ECONNREFUSED 127.0.0.1:${port}`),
    )
  })

  it('a shared store that is away', { skip: NO_REDIS }, async (t) => {
    const redis = await startRedis()
    await started(t, { env: { GATEWAY_STORE: `redis://127.0.0.1:${redis.port}` } })
    await page.getByText('Nothing.', { exact: true }).waitFor()
    await redis.stop()
    await firstLineIs('CountersignStoreAway', /^The shared store is away.*\w{5}/)
  })

  it('a service that fails, and a gateway that is not ready', async (t) => {
    const gateway = await started(t, { env: { GATEWAY_DRAIN_GRACE_MS: '30000' } })
    await page.getByText('Nothing.', { exact: true }).waitFor()
    for (let i = 0; i < 20; i++) await call(`${gateway.url}/broken`)
    await firstLineIs(
      'CountersignErrorBudgetBurnsFast',
      /^Requests fail.*100 % got 5xx in the last minute, mostly 503 of the service/,
    )
    gateway.process.child.kill('SIGTERM')
    await show(gateway)
    await firstLineIs('CountersignNotReady', /^Not ready.*draining/)
  })

  it('webhooks of a client whose clock is wrong', async (t) => {
    const gateway = await started(t, {
      config: { routes: [{ path: '/*', auth: ['hmac'] }] },
      clients: [{ id: '<b>acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'ACME_SECRET' }] } }],
      env: { ACME_SECRET: `whsec_${Buffer.from('0123456789abcdefghijklmnop').toString('base64')}` },
    })
    await page.getByText('Nothing.', { exact: true }).waitFor()
    const headers = {
      'x-api-key': 'key_acme',
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(Date.now() / 1000) - 600),
      'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}`,
    }
    for (let i = 0; i < 20; i++) await call(gateway.url, { headers })
    await firstLineIs(
      'CountersignAuthenticationFailures',
      /^Credentials are wrong: hmac.*: client "<b>acme": webhook-timestamp is 6\d\d s behind our clock; 300 s/,
    )
  })

  it('a certificate that expires', async (t) => {
    const tls = await makeTlsSetup()
    const { certPem, keyPem } = await makeServerCertificate(tls.ca, { untilDays: 1 })
    const env = {
      ...tls.env,
      GATEWAY_TLS_CERT: tls.write('c.pem', certPem),
      GATEWAY_TLS_KEY: tls.write('k.pem', keyPem),
    }
    await started(t, { env })
    await firstLineIs(
      'CountersignCertificateExpiresNow',
      /^The certificate expires.*in 2[34] h, \d{4}-\d\d-\d\d/,
    )
  })

  it('seals that are behind', async (t) => {
    const env = {
      GATEWAY_AUDIT_SEALS: 'on',
      TIME_LAPSE: '20',
      TIME_LAPSE_FROM: String(Date.now()),
      NODE_OPTIONS: `--import ${new URL('time-lapse.ts', import.meta.url).href}`,
    }
    const gateway = await started(t, { env })
    await call(`${gateway.url}/x`)
    await until(async () => (await gateway.metric('gateway_audit_tree_size')) > 0 || undefined)
    const log = join(gateway.dir, 'audit-log')
    renameSync(log, `${log}.away`)
    writeFileSync(log, '')
    await call(`${gateway.url}/x`)
    await firstLineIs('CountersignAuditNotSealed', /^Seals are behind.*(ENOTDIR|EEXIST).*audit-log/)
  })

  it('five faults and 40 limits fit 360 and 1280 px, without a broken word or a finding of axe', async (t) => {
    const limits = Array.from({ length: 40 }, (_, i) => {
      return { name: `limit-${i}`, path: `/limits/number-${i}`, limit: 5, window: '1h', purpose: 'a test' }
    })
    const tls = await makeTlsSetup()
    const { certPem, keyPem } = await makeServerCertificate(tls.ca, { untilDays: 1 })
    const env = {
      GATEWAY_TLS_PORT: '0',
      GATEWAY_TLS_CERT: tls.write('c.pem', certPem),
      GATEWAY_TLS_KEY: tls.write('k.pem', keyPem),
    }
    const config = {
      upstreams: {
        default: { breaker: { failures: 2, openMs: 60_000 } },
        payments: {
          targets: [upstream.url.replace('127.0.0.1', 'localhost'), `http://127.0.0.1:${await freePort()}`],
          healthCheck: { path: '/', intervalMs: 1000, timeoutMs: 10_000, unhealthyAfter: 1 },
        },
      },
      routes: [
        { path: '/payments/*', auth: ['none'], upstream: 'payments' },
        { path: '/*', auth: ['none'] },
      ],
    }
    const gateway = await started(t, { config, limits, env })
    for (const [i, calls] of [4, 3, 2, 1, 1, 0, 0, 20].entries())
      for (let j = 0; j < calls; j++) await call(`${gateway.url}/limits/number-${i}`)
    for (let i = 0; i < 5; i++) await call(`${gateway.url}/broken`)
    writeFileSync(gateway.limitsFile, '{"limits":[{"path":"/a","limit":0,"window":"1m","purpose":"x"}]}')
    await page.locator('#attention li').nth(4).waitFor()
    assert.deepEqual(
      await page.evaluate("[...document.querySelectorAll('#attention a')].map(({ hash }) => hash.slice(12))"),
      ['certificateexpiresnow', 'upstreamdown', 'breakeropen', 'reloadfailed', 'limitsaturated'],
    )
    assert.match(
      (await page.locator('#upstreams tbody').innerText()).replaceAll(/\s+/g, ' '),
      /^Group default http\S+ breaker open \S+\/s [1-9][\d.]* % .* Group payments http:\/\/localhost\S+ healthy .*\d down /,
    )
    await look('five-faults')
    const rows = page.locator('#limits tbody tr')
    assert.equal(await rows.count(), 40)
    await page.setViewportSize({ width: 1280, height: 900 })
    const hidden =
      "document.querySelector('.whole').scrollHeight - document.querySelector('.whole').clientHeight"
    assert.equal(await page.evaluate(hidden), 0, 'every row of the table is shown')
    await pictures('forty-limits', { top: '#limits-title', height: 1400 })
    await page.goto(`${gateway.adminUrl}/runbook#countersigndown`)
    await look('runbook')
  })

  /** Looks at two of the four combinations of width and colours, because axe takes seconds for each. */
  async function look(name: string): Promise<void> {
    for (const [width, colorScheme] of [
      [360, 'light'],
      [1280, 'dark'],
    ] as const) {
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme })
      const what = `${name}, ${width} px, ${colorScheme}`
      assert.deepEqual(await accessibilityFindings(page), [], what)
      assert.deepEqual(await page.evaluate(WIDER_THAN_PAGE), [], what)
      assert.deepEqual(await page.evaluate(BROKEN_WORDS), [], what)
    }
    await pictures(name)
  }

  /** Takes pictures in all four combinations of width and colours, for people to look at. */
  async function pictures(name: string, { top = 'body', height = 900 } = {}): Promise<void> {
    if (SCREENSHOTS === undefined) return
    mkdirSync(SCREENSHOTS, { recursive: true })
    for (const width of [360, 1280]) {
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.setViewportSize({ width, height })
        await page.emulateMedia({ colorScheme })
        await page.evaluate(`document.querySelector('${top}').scrollIntoView()`)
        await page.screenshot({ path: join(SCREENSHOTS, `${name}-${width}-${colorScheme}.png`) })
      }
    }
  }
}

/** Words, of letters only, that are broken over two lines. */
const BROKEN_WORDS = `(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  const broken = []
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const { index, 0: word } of node.data.matchAll(/(?<![^\\s])\\p{L}{2,24}(?![^\\s])/gu)) {
      const range = document.createRange()
      range.setStart(node, index)
      range.setEnd(node, index + word.length)
      const tops = new Set([...range.getClientRects()].filter(({ width }) => width > 0).map(({ top }) => Math.round(top)))
      if (tops.size > 1) broken.push(word)
    }
  }
  return broken
})()`

/** Elements that one must scroll sideways. */
const WIDER_THAN_PAGE = `[...document.querySelectorAll('html, table, pre, dl')]
  .filter((one) => one.checkVisibility() && one.scrollWidth > innerWidth).map((one) => one.id || one.className)`
