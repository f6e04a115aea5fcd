import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
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

  it('takes tokens for the issuer and audience of a configuration file, with any subject, client and scope', async () => {
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
    await assert.rejects(startGateway({ upstream, config }), /gateway\.json: \$\.routes\[0\]\.auth\[0\]/)
    const brief = await startGateway({ upstream })
    assert.equal(readdirSync(temporary).length, 1)
    await brief.stop()
    assert.deepEqual(readdirSync(temporary), [])
  })

  it('is shown by config/examples/service.test.mjs, which passes', () => {
    const example = fileURLToPath(new URL('../../config/examples/service.test.mjs', import.meta.url))
    const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
    const env = { PATH, HOME, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) }
    const { status, stdout } = spawnSync(process.execPath, ['--test', example], { encoding: 'utf8', env })
    assert.equal(status, 0, stdout)
    assert.match(stdout, /pass 3\n/)
  })
})
