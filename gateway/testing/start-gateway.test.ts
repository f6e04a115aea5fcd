import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startGateway, type TestGateway } from './start-gateway.ts'

describe('a gateway in the tests of a service', () => {
  let service: Server
  let upstream: string
  let gateway: TestGateway
  const dir = mkdtempSync(join(tmpdir(), 'countersign-'))

  before(async () => {
    service = createServer((req, res) => res.end(JSON.stringify(req.headers))).listen(0, '127.0.0.1')
    await once(service, 'listening')
    upstream = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
    const config = join(dir, 'gateway.json')
    const routes = [
      { path: '/users', auth: ['bearer'], scopes: ['users:admin', 'users:read'] },
      { path: '/banks', auth: ['mtls'] },
    ]
    writeFileSync(config, JSON.stringify({ issuer: 'https://id.example.com', audience: 'the-api', routes }))
    const clients = [{ id: 'bank-b', mtls: { sanUri: 'urn:test:bank-b' } }]
    gateway = await startGateway({ upstream, config, clients, https: true })
  })
  after(async () => {
    await gateway.stop()
    service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  it('takes tokens for the issuer and audience of its file, with any subject, client and scope', async () => {
    const token = await gateway.token({ subject: 'eve', client: 'app', scope: ['users:admin', 'users:read'] })
    const headers = { authorization: `Bearer ${token}` }
    const response = await fetch(`${gateway.url}/users`, { headers })
    const seen = (await response.json()) as Record<string, string>
    assert.deepEqual([seen['x-auth-subject'], seen['x-auth-client']], ['eve', 'app'])
    assert.equal(seen['x-auth-scope'], 'users:admin users:read')
  })

  it('takes its own client certificates', async () => {
    const certificate = await gateway.certificate({ subject: 'CN=bank-b', sanUri: 'urn:test:bank-b' })
    const req = request(`${gateway.httpsUrl}/banks`, certificate).end()
    const [res] = await once(req, 'response')
    assert.equal(res.statusCode, 200)
    res.resume()
    assert.deepEqual(
      gateway.audit(res.headers['x-request-id']).map(({ clientId }) => clientId),
      ['bank-b', 'bank-b'],
    )
  })

  it('says what is wrong with a configuration, and leaves nothing behind when it ends', async (t) => {
    const temporary = mkdtempSync(join(dir, 'tmp-'))
    const { TMPDIR } = process.env
    process.env.TMPDIR = temporary
    t.after(() => {
      if (TMPDIR === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = TMPDIR
    })
    const config = { routes: [{ path: '/x', auth: ['baerer'] }] }
    await assert.rejects(
      startGateway({ upstream, config }),
      /^Error: the gateway cannot start: .*gateway\.json: \$\.routes\[0\]\.auth\[0\]/,
    )
    await assert.rejects(startGateway({ config: 'no-such-file.json', https: true }), /no-such-file\.json/)
    assert.deepEqual(readdirSync(temporary), [])
    const brief = await startGateway({ upstream })
    assert.equal(readdirSync(temporary).length, 1)
    await brief.stop()
    assert.deepEqual(readdirSync(temporary), [])
  })

  const EXAMPLE = fileURLToPath(new URL('../../config/examples/service.test.mjs', import.meta.url))
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  const test = (file: string) =>
    spawnSync(process.execPath, ['--test', file], {
      encoding: 'utf8',
      env: { PATH, HOME, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) },
      timeout: 60_000,
    })

  it('is shown by config/examples/service.test.mjs, which passes', () => {
    const { status, stdout } = test(EXAMPLE)
    assert.equal(status, 0, stdout)
    assert.match(stdout, /pass 3\n/)
  })

  it('makes the example end with the reason if it cannot start', () => {
    const file = join(dir, 'service.test.mjs')
    const start = fileURLToPath(new URL('start-gateway.ts', import.meta.url))
    const example = readFileSync(EXAMPLE, 'utf8').replace('countersign/testing', start)
    writeFileSync(file, example.replace('limit: 2', 'limit: -2'))
    const { status, stdout } = test(file)
    assert.equal(status, 1)
    assert.match(stdout, /the gateway cannot start: .*limits\.json: \$\.limits\[0\]\.limit/)
  })
})
