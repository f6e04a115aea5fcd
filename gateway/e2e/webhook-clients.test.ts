import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { PROGRAM } from '../cli/program.test-support.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { runTool } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const clientOf = (id: string, hmac: object = {}) => ({
  id,
  scopes: [],
  hmac: { scheme: 'github', secrets: [{ env: `SECRET_OF_${id.toUpperCase()}` }], ...hmac },
})
const SECRETS = { SECRET_OF_ACME: 'the-secret-of-acme-1', SECRET_OF_OTHER: 'the-secret-of-other' }
const ACME = clientOf('acme')
const OTHER = clientOf('other', { keyId: 'key_other' })
const hook = (id: string) => ({ path: `/hooks/${id}`, auth: ['hmac'], webhookClient: id })
const NEVER = /webhooks of some clients are always refused, .*"keyId".*"webhookClient": "acme"/

describe('rows and their webhookClient', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let configFile: string
  let open: object

  before(async () => {
    upstream = await startUpstream()
    open = { path: '/open', auth: ['none'] }
    gateway = await startGateway({
      config: { upstream: upstream.url, routes: [open, hook('acme')] },
      clients: [ACME, OTHER],
      env: SECRETS,
    })
    configFile = join(gateway.dir, 'gateway.json')
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  const writeRows = (routes: readonly object[]) =>
    writeFileSync(configFile, JSON.stringify({ upstream: upstream.url, routes }))
  const writeClients = (clients: readonly object[]) =>
    writeFileSync(gateway.clientsFile, JSON.stringify({ clients }))
  const statusOf = async (path: string) => (await call(gateway.url + path)).status
  const isGood = (file: string) => gateway.metric(`gateway_config_last_reload_successful{file="${file}"}`)
  const becomes = (file: string, value: 0 | 1) =>
    until(async () => ((await isGood(file)) === value ? true : undefined))
  const logged = (from: number, what: RegExp) =>
    until(() =>
      gateway.process.lines.slice(from).find((line) => what.test(JSON.stringify(line).replaceAll('\\', ''))),
    )
  const changes = () => gateway.audit().filter(({ type }) => type === 'CONFIG_CHANGE').length

  it('always fit: an edit that removes the client of a row changes nothing until the row is removed too', async () => {
    const known = changes()
    for (const clients of [[OTHER], [{ id: 'acme', scopes: [], mtls: { sanDns: 'acme.example' } }, OTHER]]) {
      const from = gateway.process.lines.length
      writeClients(clients)
      await becomes('clients.json', 0)
      const line = await logged(from, /last good clients/)
      assert.equal(line.file, gateway.clientsFile)
      assert.match(
        String(line.faults),
        /gateway\.json: \$\.routes\[1\]\.webhookClient: names no client of clients\.json with "hmac": "acme"/,
      )
      assert.equal(changes(), known)
      writeClients([ACME, OTHER])
      await becomes('clients.json', 1)
    }
    writeClients([OTHER])
    await becomes('clients.json', 0)
    writeRows([open])
    await becomes('clients.json', 1)
    assert.equal(await statusOf('/hooks/acme'), 404)
  })

  it('always fit: a row that names an unknown client changes nothing until the client is there', async () => {
    writeRows([open])
    writeClients([OTHER])
    await becomes('clients.json', 1)
    await until(async () => ((await statusOf('/hooks/acme')) === 404 ? true : undefined))
    const known = changes()
    const from = gateway.process.lines.length
    writeRows([open, hook('acme')])
    await becomes('gateway.json', 0)
    const line = await logged(from, /last good settings/)
    assert.equal(line.file, configFile)
    assert.match(
      String(line.faults),
      /gateway\.json: \$\.routes\[1\]\.webhookClient: names no client of clients\.json with "hmac": "acme"/,
    )
    assert.deepEqual([await statusOf('/hooks/acme'), changes()], [404, known])
    writeClients([ACME, OTHER])
    await becomes('gateway.json', 1)
    assert.equal(await statusOf('/hooks/acme'), 401)
  })

  it('cause a warning for a client without keyId that no row names: by edits, at the start, in validate', async () => {
    const from = gateway.process.lines.length
    writeRows([open, { path: '/hooks', auth: ['hmac'] }])
    assert.equal((await logged(from, NEVER)).file, gateway.clientsFile)
    writeClients([{ ...ACME, hmac: { ...ACME.hmac, keyId: 'key_acme' } }, OTHER])
    await logged(from, /clients are in force/)
    const again = gateway.process.lines.length
    writeClients([ACME, OTHER])
    await logged(again, NEVER)
    const env = { ...SECRETS, GATEWAY_CLIENTS: gateway.clientsFile, GATEWAY_CONFIG: configFile }
    const assignments = Object.entries(env).map(([name, value]) => `${name}=${value}`)
    const validate = [process.execPath, PROGRAM, 'validate']
    const { status, output } = await runTool('env', [...assignments, ...validate])
    assert.deepEqual([status, NEVER.test(output)], [0, true], output)
    const started = await startGateway({
      config: { upstream: upstream.url, routes: [open, { path: '/hooks', auth: ['hmac'] }] },
      clients: [ACME],
      env: SECRETS,
    })
    assert.ok(started.process.lines.some((line) => NEVER.test(JSON.stringify(line).replaceAll('\\', ''))))
    await started.end()
  })

  it('may not name a client that clients.json lacks, also when the first such row is added', async () => {
    const other = await startGateway({
      config: { upstream: upstream.url, routes: [open] },
      clients: [OTHER],
      env: SECRETS,
    })
    writeFileSync(
      join(other.dir, 'gateway.json'),
      JSON.stringify({ upstream: upstream.url, routes: [open, hook('acme')] }),
    )
    await until(() => other.process.lines.find((line) => /"acme"/.test(String(line.faults))))
    assert.equal((await call(`${other.url}/hooks/acme`)).status, 404)
    await other.end()
  })

  it('use a new secret when its file changes, but not when the file becomes empty', async (t) => {
    const secretFile = join(gateway.dir, 'secret')
    writeFileSync(secretFile, 'the-first-secret-1')
    const filed = await startGateway({
      config: { upstream: upstream.url, authThrottle: { failures: 0 }, routes: [hook('filed')] },
      clients: [clientOf('filed', { secrets: [{ file: secretFile }] })],
    })
    t.after(() => filed.end())
    const reload = async () => {
      const { body } = await call(`${filed.adminUrl}/reload`, { method: 'POST' })
      return JSON.parse(body).clients
    }
    const send = async (secret: string, body: string) => {
      const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
      const headers = { 'x-hub-signature-256': signature, 'x-github-delivery': body }
      return (await call(`${filed.url}/hooks/filed`, { method: 'POST', headers, body })).status
    }
    assert.deepEqual([await send('the-first-secret-1', 'a'), (await reload()).result], [200, 'unchanged'])
    writeFileSync(secretFile, 'the-second-secret')
    await reload()
    assert.deepEqual(
      [await send('the-first-secret-1', 'b'), await send('the-second-secret', 'c')],
      [401, 200],
    )
    const changed = filed.process.lines.filter(
      ({ msg, changed }) => msg === 'clients are in force' && changed,
    )
    assert.equal(changed.length, 1)
    writeFileSync(secretFile, '')
    const { result, faults } = await reload()
    assert.equal(result, 'failure')
    assert.match(faults[0], /secrets\[0\]: the file .* is empty/)
    assert.equal(await send('the-second-secret', 'd'), 200)
  })
})
