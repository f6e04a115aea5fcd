import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { loadSettings } from '../../config/load-settings.ts'
import { startBanner } from './start-banner.ts'

function banner(gateway: object, env: NodeJS.ProcessEnv = {}): string {
  const { value: settings } = loadSettings(env, () => JSON.stringify(gateway))
  assert.ok(settings)
  const at = { port: 8080, tlsPort: 8443, adminPort: 9090 }
  return stripVTControlCharacters(
    startBanner(
      { settings, limits: { text: '', value: { rows: [], plans: new Map() } }, version: '1.2.3' },
      at,
    ),
  )
}

test('the banner has every address as a client on this machine would use it, and a command that works', () => {
  const routes = [
    { path: '/private', auth: ['bearer'] },
    { path: '/post', methods: ['POST'], auth: ['none'] },
    { path: '/open/*', auth: ['none'] },
  ]
  const text = banner({ host: '0.0.0.0', adminHost: '::1', routes })
  for (const part of [
    'Countersign 1.2.3',
    'http://127.0.0.1:8080  →  http://127.0.0.1:3000',
    'https://127.0.0.1:8443',
    'http://[::1]:9090',
    'curl -i http://127.0.0.1:8080/open/\n',
    'explain route GET /open/\n',
  ]) {
    assert.ok(text.includes(part), `${part}\n${text}`)
  }
})

test('the commands of the banner can be copied into a shell', () => {
  const env = { GATEWAY_CONFIG: '/srv/my gateway/gateway.json' }
  const text = banner({ host: '::', routes: [{ path: "/it's", auth: ['none'] }] }, env)
  assert.ok(text.includes("curl -i 'http://[::1]:8080/it'\\''s'\n"), text)
  assert.ok(text.includes("GET '/it'\\''s' --config '/srv/my gateway/gateway.json' --limits "), text)
})
