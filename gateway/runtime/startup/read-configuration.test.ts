import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { makeAuthority } from '../../tls/demo/throw-away-ca.ts'
import { readAgain, readConfiguration, type StartupConfiguration } from './read-configuration.ts'

const ROUTES = [{ path: '/*', auth: ['none'] }]
const authority = await makeAuthority({ subject: 'CN=localhost' })
const renewed = await makeAuthority({ subject: 'CN=renewed' })

const limitsOf = (limit: number) =>
  JSON.stringify({ limits: [{ path: '/*', limit, window: '1h', purpose: 'Test' }] })

/** A gateway's files, as they were read. */
function written(t: TestContext) {
  const dir = temporaryDirectory(t)
  const env: Record<string, string> = {}
  const write = (variable: string, name: string, text: string) => {
    const file = join(dir, name)
    writeFileSync(file, text, { mode: 0o600 })
    env[variable] = file
  }
  write('GATEWAY_CONFIG', 'gateway.json', JSON.stringify({ routes: ROUTES }))
  write('GATEWAY_LIMITS', 'limits.json', limitsOf(1))
  write('GATEWAY_TLS_CERT', 'cert.pem', authority.certPem)
  write('GATEWAY_TLS_KEY', 'key.pem', authority.keyPem)
  write('GATEWAY_ADMIN_TOKEN_FILE', 'token', 'a-token-that-is-long-enough-for-all\n')
  env.GATEWAY_TLS_PORT = '0'
  const { value, faults } = readConfiguration(env)
  assert.ok(value, JSON.stringify(faults))
  const read = value as StartupConfiguration
  return { env, read, write, again: () => readAgain(read, env) }
}

it('a client whose plan is not in limits.json prevents a start', (t) => {
  const { env, write } = written(t)
  write('GATEWAY_CLIENTS', 'clients.json', JSON.stringify({ clients: [{ id: 'shop', plan: 'gold' }] }))
  assert.deepEqual(
    readConfiguration(env).faults?.map(({ path, reason }) => `${path}: ${reason}`),
    ['$.clients[0].plan: names no plan of limits.json: "gold"'],
  )
})

describe('what a process that takes over reads again', () => {
  it('is nothing when no file was edited', (t) => {
    const { read, again } = written(t)
    assert.equal(again(), read)
  })

  it('is every edit that was put in force meanwhile', (t) => {
    const { read, write, again } = written(t)
    write('GATEWAY_LIMITS', 'limits.json', limitsOf(2))
    assert.deepEqual([again().limits.value.rows[0]?.limit, read.limits.value.rows[0]?.limit], [2, 1])
    write('GATEWAY_CONFIG', 'gateway.json', JSON.stringify({ routes: ROUTES, via: true }))
    assert.equal(again().settings.via, true)
    write('GATEWAY_TLS_CERT', 'cert.pem', renewed.certPem)
    write('GATEWAY_TLS_KEY', 'key.pem', renewed.keyPem)
    assert.notDeepEqual(again().tls?.material.summary, read.tls?.material.summary)
    write('GATEWAY_ADMIN_TOKEN_FILE', 'token', 'another-token-that-is-long-enough-too\n')
    assert.match(String(again().adminToken?.value), /^another/)
  })

  it('is no edit that has a fault, or needs a restart', (t) => {
    const { read, write, again } = written(t)
    write('GATEWAY_LIMITS', 'limits.json', '{"limits":[')
    assert.equal(again(), read)
    write('GATEWAY_LIMITS', 'limits.json', limitsOf(2))
    write('GATEWAY_CONFIG', 'gateway.json', JSON.stringify({ routes: ROUTES, maxConnections: 1000 }))
    assert.equal(again(), read)
  })
})
