import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { ConfigReport, PartInForce, ReloadResult } from '../admin/config-in-force.ts'
import { run } from './child-process.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'

const TOKEN = 'the-first-token-of-the-admin-listener'
const NEXT = 'the-second-token-of-the-admin-listener'
const OPEN = { upstream: 'http://127.0.0.1:9', routes: [{ path: '/*', auth: ['none'] }] }

describe('the admin listener with a token', () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-token-'))
  const tokenFile = join(dir, 'token')
  let gateway: TestGateway
  before(async () => {
    writeFileSync(tokenFile, `${TOKEN}\n`)
    gateway = await startGateway({ config: OPEN, env: { GATEWAY_ADMIN_TOKEN_FILE: tokenFile } })
  })
  after(async () => {
    await gateway?.end('SIGKILL')
    rmSync(dir, { recursive: true, force: true })
  })

  const statusOf = async (path: string, headers: Record<string, string> = {}) =>
    (await call(gateway.adminUrl + path, { headers })).status
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  async function partInForce(token: string): Promise<PartInForce> {
    const response = await call(`${gateway.adminUrl}/config`, { headers: bearer(token) })
    const part = response.json<ConfigReport>().parts['admin tokens']
    assert.ok(part, response.body)
    return part
  }

  it('lets anyone probe, and shows metrics only to those who have the token', async () => {
    for (const path of ['/healthz', '/readyz'])
      assert.equal(await statusOf(path, { host: 'any.example' }), 200)
    const refused = await call(`${gateway.adminUrl}/metrics`)
    assert.deepEqual(
      [refused.status, refused.headers['www-authenticate']],
      [401, 'Bearer realm="countersign admin"'],
    )
    assert.equal(refused.headers['x-content-type-options'], 'nosniff')
    assert.equal(await statusOf('/metrics', bearer(TOKEN)), 200)
    assert.equal(await statusOf('/metrics', { ...bearer(TOKEN), origin: 'http://evil.example' }), 403)
    assert.equal(await statusOf('/metrics', { host: 'evil.example' }), 421)
  })

  it('keeps its token when an edit of the file is bad, and takes a good new one at once', async () => {
    writeFileSync(tokenFile, 'short')
    await gateway.process.line(({ msg }) => msg === 'the last good admin tokens stay in force')
    assert.equal(await statusOf('/metrics', bearer(TOKEN)), 200)
    const reload = (token: string) =>
      call(`${gateway.adminUrl}/reload`, { method: 'POST', headers: bearer(token) })
    const refused = await reload(TOKEN)
    const { file, result, faults } = refused.json<Record<string, ReloadResult>>()['admin tokens'] ?? {}
    assert.deepEqual([refused.status, file, result], [422, tokenFile, 'failure'])
    assert.match(String(faults), /must hold one line of 32 to 256 visible ASCII characters/)
    const before = await partInForce(TOKEN)
    writeFileSync(tokenFile, NEXT)
    await until(async () => ((await statusOf('/metrics', bearer(NEXT))) === 200 ? true : undefined))
    assert.equal(await statusOf('/metrics', bearer(TOKEN)), 401)
    const change = await until(() => gateway.audit().find(({ type }) => type === 'CONFIG_CHANGE'))
    assert.equal((await reload(NEXT)).status, 200)
    const after = await partInForce(NEXT)
    assert.notEqual(before.hash, after.hash)
    assert.doesNotMatch(JSON.stringify([change, after]), /token-of-the-admin/)
    assert.doesNotMatch(JSON.stringify(gateway.process.lines), /token-of-the-admin/)
  })
})

describe('a gateway whose admin listener others could reach', () => {
  it('does not start without a token, and names both ways out', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'countersign-open-'))
    writeFileSync(join(dir, 'gateway.json'), JSON.stringify(OPEN))
    writeFileSync(join(dir, 'limits.json'), '{"limits":[]}')
    const child = run('gateway/main.ts', {
      GATEWAY_CONFIG: join(dir, 'gateway.json'),
      GATEWAY_LIMITS: join(dir, 'limits.json'),
      GATEWAY_ADMIN_HOST: '0.0.0.0',
    })
    assert.equal(await child.ended, 1)
    assert.match(child.plain(), /GATEWAY_ADMIN_HOST: .*GATEWAY_ADMIN_TOKEN_FILE.*GATEWAY_ADMIN_OPEN=true/)
    rmSync(dir, { recursive: true, force: true })
  })
})
