import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { startBeats } from './beats.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/** With as many the system gives both workers some: the chance that it does not is one in 2³¹. */
const CONNECTIONS = 32

describe('an edit of gateway.json with two workers', () => {
  let one: TestUpstream
  let other: TestUpstream
  let gateway: TestGateway
  const agents = Array.from({ length: CONNECTIONS }, () => new Agent({ keepAlive: true, maxSockets: 1 }))

  before(async () => {
    one = await startUpstream((_req, res) => res.end('one'))
    other = await startUpstream((_req, res) => res.end('other'))
    gateway = await startGateway({
      config: configOf(one.url, '/a'),
      // Threads leave no source maps beside their coverage.
      env: { GATEWAY_WORKERS: '2', NODE_V8_COVERAGE: '' },
    })
  })
  after(async () => {
    for (const agent of agents) agent.destroy()
    await gateway.end()
    one.close()
    other.close()
  })

  function configOf(upstream: string, path: string): object {
    return {
      upstream,
      routes: [
        { path: '/always', auth: ['none'] },
        { path, auth: ['none'] },
      ],
    }
  }

  const everywhere = async (path: string) => {
    const responses = await Promise.all(agents.map((agent) => call(gateway.url + path, { agent })))
    return [...new Set(responses.map(({ status, body }) => (status === 200 ? body : String(status))))]
  }

  it('is in force on each of them within a second, also on connections that are open', async () => {
    assert.deepEqual(await everywhere('/a'), ['one'])
    const beats = startBeats()
    writeFileSync(join(gateway.dir, 'gateway.json'), JSON.stringify(configOf(other.url, '/b')))
    await until(async () => ((await everywhere('/b')).join() === 'other' ? true : undefined))
    assert.ok(beats.elapsedMs() < 1000)
    assert.deepEqual(await everywhere('/a'), ['404'])
    const [change, ...more] = await until(() => {
      const changes = gateway.audit().filter(({ type }) => type === 'CONFIG_CHANGE')
      return changes.length > 0 ? changes : undefined
    })
    assert.deepEqual(more, [])
    const [after] = (change as object as { after: [object] }).after
    assert.deepEqual(Object.keys(after).sort(), ['jwksUri', 'routes', 'upstream'])
    assert.equal(
      await gateway.metric('gateway_config_reloads_total{file="gateway.json",result="success"}'),
      2,
    )
    assert.equal(await gateway.metric(`gateway_upstream_healthy{upstream="${other.url}"}`), 1)
  })

  it('that brings a description of the API is followed by each, which compiles its schemas for itself', async () => {
    const schema = { type: 'integer', maximum: 5 }
    const get = { security: [], parameters: [{ name: 'n', in: 'query', schema }] }
    const document = { openapi: '3.1.0', paths: { '/items/{id}': { get } } }
    const api = join(gateway.dir, 'api.json')
    writeFileSync(api, JSON.stringify(document))
    const openapi = { file: api, validateRequests: true }
    writeFileSync(
      join(gateway.dir, 'gateway.json'),
      JSON.stringify({ ...configOf(other.url, '/b'), openapi }),
    )
    await until(async () => ((await everywhere('/items/1?n=5')).join() === 'other' ? true : undefined))
    assert.deepEqual(await everywhere('/items/1?n=6'), ['400'])
  })

  it('that is faulty reaches none of them', async () => {
    writeFileSync(join(gateway.dir, 'gateway.json'), JSON.stringify({ upstream: one.url, routes: [] }))
    const sample = 'gateway_config_last_reload_successful{file="gateway.json"}'
    await until(async () => ((await gateway.metric(sample)) === 0 ? true : undefined))
    assert.deepEqual(await everywhere('/b'), ['other'])
  })
})
