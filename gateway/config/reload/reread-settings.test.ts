import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeAuthority, makeCertificate } from '../../tls/demo/throw-away-ca.ts'
import { describeFault } from '../faults.ts'
import type { Settings } from '../settings.ts'
import { shownSettings } from '../shown-settings.ts'
import { readSettings, rereadSettings } from './reread-settings.ts'
import { changeOf } from './settings-change.ts'

const DIR = mkdtempSync(join(tmpdir(), 'countersign-reread-'))
process.on('exit', () => rmSync(DIR, { recursive: true, force: true }))

const open = (file: object = {}) => JSON.stringify({ routes: [{ path: '/*', auth: ['none'] }], ...file })

/** Starts with one file and edits it. */
function edited(before: string, after: string, variables: Record<string, string> = {}) {
  const env = { GATEWAY_CONFIG: join(DIR, 'gateway.json'), ...variables }
  writeFileSync(env.GATEWAY_CONFIG, before)
  const { parsed } = readSettings(env)
  assert.deepEqual(parsed.faults, undefined)
  return rereadSettings({ env, running: parsed.value as Settings, text: after })
}

test('the environment overrides the edited file as it did the first', () => {
  const { parsed } = edited(open({ via: false }), open({ via: true, port: 9 }), { GATEWAY_PORT: '8181' })
  assert.deepEqual([parsed.value?.settings.via, parsed.value?.settings.port], [true, 8181])
  assert.deepEqual(parsed.value?.needsRestart, [])
})

test('an edit with which no gateway could start is refused, even if the faulty keys wait for a restart', () => {
  const { faults } = edited(open(), open({ port: 9090 })).parsed
  assert.match(faults?.map(describeFault).join() ?? '', /\$\.adminPort: the public and the admin listener/)
})

test('an edit that is good for a start, but loops with the port in force, is refused', () => {
  const { faults } = edited(open(), open({ port: 8081, upstream: 'http://127.0.0.1:8080' })).parsed
  assert.match(faults?.map(describeFault).join() ?? '', /\$\.upstream: .*would loop/)
})

test('the clients are read with the first edit that needs them, and their faults refuse it', () => {
  const clientsFile = join(DIR, 'clients.json')
  const hooks = open({ routes: [{ path: '/*', auth: ['hmac'] }] })
  const cwd = process.cwd()
  process.chdir(DIR)
  try {
    const missing = edited(open(), hooks)
    assert.match(
      missing.parsed.faults?.map(describeFault).join() ?? '',
      /config\/clients\.json: \$: cannot be read/,
    )
  } finally {
    process.chdir(cwd)
  }
  writeFileSync(clientsFile, '{"clients":[]}')
  const named = edited(open(), hooks, { GATEWAY_CLIENTS: clientsFile })
  // The file was read at the start, because the variable names it.
  assert.equal(named.parsed.value?.clients, undefined)
})

test('the other files that the settings depend on are told with their texts, also when one cannot be read', () => {
  const secret = join(DIR, 'secret')
  writeFileSync(secret, 'a-secret-of-at-least-32-characters')
  const { texts } = edited(open(), open({ upstreamSecretFile: secret }))
  assert.equal(texts?.get(secret), 'a-secret-of-at-least-32-characters')
  const away = edited(open(), open({ upstreamSecretFile: `${secret}-away` }))
  assert.ok(away.parsed.faults)
  assert.ok(away.texts?.has(`${secret}-away`))
})

test('new content of a file that a key names is in force or waits for a restart, and is never shown', () => {
  const file = join(DIR, 'named')
  const variables = { GATEWAY_STORE: 'redis://127.0.0.1:6379', GATEWAY_STORE_KEY_FILE: file }
  const cases: [named: object, env: Record<string, string>, changed: string[], waits: string[]][] = [
    [{ upstreamSecretFile: file }, {}, ['upstreamSecret'], []],
    [{ idempotencyKeyFile: file }, {}, ['idempotencyKeys'], []],
    [{ maskKeyFile: file }, {}, ['maskKey'], []],
    [{ audit: { sealKeyFile: file } }, {}, [], ['audit.sealKey']],
    [{ tracing: { endpoint: 'https://spans.example', headers: { a: { file } } } }, {}, [], ['tracing']],
    [{}, variables, [], ['store']],
  ]
  for (const [named, more, changed, waits] of cases) {
    const env = { GATEWAY_CONFIG: join(DIR, 'gateway.json'), ...more }
    writeFileSync(env.GATEWAY_CONFIG, open(named))
    writeFileSync(file, 'a'.repeat(40))
    const running = readSettings(env).parsed.value as Settings
    writeFileSync(file, 'b'.repeat(40))
    const { parsed, texts } = rereadSettings({ env, running, text: open(named) })
    assert.ok(parsed.value, JSON.stringify(parsed.faults))
    assert.deepEqual(parsed.value.needsRestart, waits)
    const change = changeOf(running, parsed.value.settings)
    assert.deepEqual(change?.keys ?? [], changed)
    assert.ok(texts?.has(file))
    assert.doesNotMatch(JSON.stringify([change, shownSettings(parsed.value.wanted)]), /bbbb/)
  }
})

test('an expired certificate for upstreams, or of their authority, replaces only an expired one', async () => {
  const days = { fromDays: -3, untilDays: -1 }
  const subject = 'CN=a'
  const issuer = await makeAuthority({ subject: 'CN=Root' })
  const old = await makeAuthority({ subject: 'CN=Root', ...days, keys: issuer.keys })
  const good = await makeCertificate({ subject, issuer })
  const late = await makeCertificate({ subject, issuer, ...days })
  const file = (name: string) => join(DIR, name)
  const tls = { caFile: file('ca.pem'), certFile: file('cert.pem'), keyFile: file('key.pem') }
  const text = open({ upstreams: { a: { targets: ['https://a'], tls } } })
  const write = (ca: typeof old, own: typeof good) => {
    writeFileSync(tls.caFile, ca.certPem)
    writeFileSync(tls.certFile, own.certPem)
    writeFileSync(tls.keyFile, own.keyPem)
  }
  const env = { GATEWAY_CONFIG: file('gateway.json') }
  writeFileSync(env.GATEWAY_CONFIG, text)
  const running = () => readSettings(env).parsed.value as Settings
  write(issuer, good)
  const sound = running()
  const reread = (settings: Settings) =>
    rereadSettings({ env, running: settings, text }).parsed.faults?.map(describeFault).join() ?? ''
  write(issuer, late)
  assert.match(
    reread(sound),
    /^\S+gateway\.json: \$\.upstreams\.a\.tls\.certFile: \S+cert\.pem: certificate 1 expired at \S+; the one in force stays/,
  )
  write(old, good)
  assert.match(reread(sound), /\$\.upstreams\.a\.tls\.caFile: \S+ca\.pem: certificate 1 expired at/)
  write(old, late)
  assert.equal(reread(running()), '')
  write(issuer, await makeCertificate({ subject, issuer }))
  assert.equal(reread(sound), '')
})
