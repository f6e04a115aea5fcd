import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { htmlOf, type RunbookSettings, runbookPage, runbookValues } from './runbook-page.ts'

test('every chapter of the runbook is on the page, under its alert in lower case, with nothing of Markdown left', () => {
  const file = new URL('../../../docs/operate/runbook.md', import.meta.url)
  const alerts = [...readFileSync(file, 'utf8').matchAll(/^## (\w+)$/gm)].map(([, alert = '']) => alert)
  const page = runbookPage().toString()
  assert.ok(alerts.length > 30)
  for (const alert of alerts) assert.ok(page.includes(`<h2 id="${alert.toLowerCase()}">${alert}</h2>`), alert)
  for (const [, anchor = ''] of page.matchAll(/href="#([^"]+)"/g))
    assert.ok(page.includes(`id="${anchor}"`), anchor)
  const paths = [...page.matchAll(/\b(?:docs|config)\/[\w./-]+\.\w+/g)].map(([path]) => path)
  assert.ok(paths.length > 5)
  for (const path of paths) assert.ok(existsSync(new URL(`../../../${path}`, import.meta.url)), path)
  for (const [, href = ''] of page.matchAll(/<a href="([^#"]*)/g)) assert.match(href, /^\/?$/)
  const prose = page.replaceAll(/<(pre|code)>.*?<\/\1>/gs, '')
  assert.doesNotMatch(prose, /\*\*|`|\]\(|^#|^\||^[-*] /m)
})

test('what stands in the runbook cannot become markup', () => {
  const shown = htmlOf('# A <b>\n\n`<i>` & **<u>** [x](#a"b) [y](#c)\n\n```sh\necho "<s>" **x**\n```\n')
  assert.equal(
    shown,
    '<h1 id="a-&lt;b&gt;">A &lt;b&gt;</h1>\n<p><code>&lt;i&gt;</code> &amp; <strong>&lt;u&gt;</strong> x <a href="#c">y</a></p>\n<pre>echo &quot;&lt;s&gt;&quot; **x**\n</pre>\n',
  )
})

test('a link to another document says where the document is', () => {
  const shown = htmlOf('[how](configuration.md#tls), [audit.md](../verify/audit.md)\n')
  assert.equal(shown, '<p>how (docs/operate/configuration.md), docs/verify/audit.md</p>\n')
})

const SETTINGS = {
  adminTokenFile: undefined,
  audit: { file: '-' },
  configFile: 'gateway.json',
  dataDir: "/var/lib/it's",
  jwksUri: 'https://issuer.example/jwks.json',
  limitsFile: '/etc/limits.json',
  store: undefined,
  tls: undefined,
  upstream: ['unix:/run/service.sock', 'http://10.0.0.1:3000'],
} as unknown as RunbookSettings

test('the values of a gateway are words of a shell, with absolute paths, and values that it lacks are left out', () => {
  const data = `'/var/lib/it'\\''s'`
  const config = resolve('gateway.json')
  assert.deepEqual(runbookValues(SETTINGS, { localAddress: '::ffff:10.0.0.9', localPort: 9090 }), {
    ADMIN: 'http://10.0.0.9:9090',
    UPSTREAM: 'http://10.0.0.1:3000',
    JWKS: 'https://issuer.example/jwks.json',
    DATA: data,
    GATEWAY_CONFIG: config.includes(' ') ? `'${config}'` : config,
    GATEWAY_LIMITS: '/etc/limits.json',
    GATEWAY_DATA_DIR: data,
  })
  const whole = {
    ...SETTINGS,
    adminTokenFile: '/run/token',
    audit: { file: '/trail/audit.ndjson' },
    store: { addresses: [{ host: 'redis', port: 6379 }] },
    tls: { port: 8443, clientCaFile: '/run/ca.pem', clientCrlFile: '/run/crl.pem' },
  } as unknown as RunbookSettings
  const { ADMIN, TOKEN_FILE, GATEWAY, CLIENT_CA, CRL, STORE, TRAIL } = runbookValues(whole, {
    localAddress: '::1',
    localPort: 1,
  })
  assert.deepEqual(
    [ADMIN, TOKEN_FILE, GATEWAY, CLIENT_CA, CRL, STORE, TRAIL],
    [
      "'http://[::1]:1'",
      '/run/token',
      'https://localhost:8443',
      '/run/ca.pem',
      '/run/crl.pem',
      'redis:6379',
      '/trail/audit.ndjson',
    ],
  )
})

test('the runbook has an example of each value of the gateway', () => {
  const page = runbookPage().toString()
  const names = [
    'ADMIN',
    'TOKEN_FILE',
    'GATEWAY',
    'UPSTREAM',
    'JWKS',
    'CLIENT_CA',
    'CRL',
    'STORE',
    'DATA',
    'TRAIL',
  ]
  const systemd = ['CONFIG', 'LIMITS', 'DATA_DIR', 'AUDIT_FILE'].map((name) => `GATEWAY_${name}`)
  for (const name of [...names, ...systemd]) assert.match(page, new RegExp(`\\b${name}=\\S`), name)
})
