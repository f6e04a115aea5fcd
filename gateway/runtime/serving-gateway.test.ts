import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { serve } from './serving-gateway.ts'
import { readConfiguration } from './startup/read-configuration.ts'

const GROUP = 8

/** A service that responds once it holds `GROUP` requests, to all of them. */
async function heldService(t: TestContext) {
  const held: ServerResponse[] = []
  const server = createServer((_, res) => {
    held.push(res)
    if (held.length === GROUP) for (const each of held.splice(0)) each.end('done')
  })
  t.after(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function serveGateway(t: TestContext, config: object) {
  const dir = mkdtempSync(join(tmpdir(), 'serving-'))
  const [configFile, limitsFile] = [join(dir, 'gateway.json'), join(dir, 'limits.json')]
  const write = (edited: object) =>
    writeFileSync(configFile, JSON.stringify({ trustedProxies: ['127.0.0.1'], ...edited }))
  write(config)
  writeFileSync(limitsFile, '{"limits": []}')
  const env = {
    GATEWAY_CONFIG: configFile,
    GATEWAY_LIMITS: limitsFile,
    GATEWAY_DATA_DIR: dir,
    GATEWAY_AUDIT_FILE: join(dir, 'audit.ndjson'),
    GATEWAY_AUDIT_SEALS: 'off',
    GATEWAY_PORT: '0',
  }
  // An edit is read with the environment of the process.
  Object.assign(process.env, env)
  const { value, faults } = readConfiguration(process.env)
  assert.deepEqual(faults, undefined)
  assert.ok(value)
  const serving = serve({ ...value, log: pino({ level: 'silent' }), storeModule: undefined }, {})
  const { port } = await serving.begin()
  t.after(async () => {
    await serving.drain({ reason: 'test', graceMs: 0, hurry: Promise.resolve() })
    rmSync(dir, { recursive: true })
    for (const name of Object.keys(env)) delete process.env[name]
  })
  return { dir, port, write, serving }
}

/** @param caller the last part of the address that a proxy names */
async function ask(port: number, caller: number): Promise<number | undefined> {
  const headers = { 'X-Forwarded-For': `192.0.2.${caller}`, Connection: 'close' }
  const [response] = await once(
    request({ port, host: '127.0.0.1', path: '/held', headers }).end(),
    'response',
  )
  response.resume()
  return response.statusCode
}

test('a group lets through as many requests at once as its bound says, also after an edit', async (t) => {
  const url = await heldService(t)
  const config = {
    upstream: url,
    upstreams: { held: { targets: [url], maxInFlight: GROUP } },
    routes: [{ path: '/held', auth: ['none'], upstream: 'held' }],
  }
  const { port, write, serving } = await serveGateway(t, config)
  const askAll = () => Promise.all(Array.from({ length: GROUP }, (_, i) => ask(port, i + 1)))
  const all = Array.from({ length: GROUP }, () => 200)
  assert.deepEqual(await askAll(), all)
  write({ ...config, timeouts: { headersMs: 25_000 } })
  await serving.reload()
  assert.equal(serving.settings.timeouts.headersMs, 25_000)
  assert.deepEqual(await askAll(), all)
})

test('the files are not handed over when the disk does not take the snapshot, so that no counts are lost', async (t) => {
  const { dir, serving } = await serveGateway(t, { routes: [{ path: '/*', auth: ['none'] }] })
  // A directory in the place of the draft.
  mkdirSync(join(dir, 'limits', 'snapshot.ndjson.tmp'))
  assert.ok(serving.handOver)
  await assert.rejects(serving.handOver.suspend(), /^Error: limits cannot be written$/)
})
