import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { call } from './client.ts'
import { commonGateway, startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

describe('one address that asks for anything', () => {
  let upstream: TestUpstream
  let gateway: TestGateway

  before(async () => {
    upstream = await startUpstream((_req, res) => res.end('whole'))
    gateway = await commonGateway({
      config: {
        upstream: upstream.url,
        trustedProxies: ['127.0.0.1'],
        addressRate: { requests: 3, window: '1h' },
        routes: [{ path: '/open', auth: ['none'] }],
      },
    })
  })
  after(async () => {
    upstream.close()
  })

  const ask = (path: string, address: string, headers = {}) =>
    call(gateway.url + path, { headers: { 'x-forwarded-for': address, ...headers } })

  it('costs the trail less than 1,500 bytes for a path that no route serves', async () => {
    const response = await ask(`/nowhere/${'p'.repeat(8000)}`, '192.0.2.1', {
      'user-agent': 'a'.repeat(8000),
    })
    assert.equal(response.status, 404)
    const pair = await gateway.pair(String(response.headers['x-request-id']))
    const bytes = pair.map((record) => JSON.stringify(record).length + 1)
    assert.ok((bytes[0] ?? 0) + (bytes[1] ?? 0) < 1500, String(bytes))
    assert.match(String(pair[0].path), /^\/nowhere\/p{200,}…$/)
  })

  it('gets 429 beyond its rate, with a route or without; the connection closes, the trail has the pair', async () => {
    const address = '192.0.2.2'
    const statuses = []
    for (const path of ['/open', '/nowhere', '/open']) statuses.push((await ask(path, address)).status)
    assert.deepEqual(statuses, [200, 404, 200])
    for (const path of ['/open', '/nowhere']) {
      const refused = await ask(path, address)
      assert.equal(refused.status, 429)
      assert.equal(refused.json().code, 'address_rate_exceeded')
      assert.equal(refused.headers.connection, 'close')
      assert.ok(Number(refused.headers['retry-after']) > 3500)
      const [request, response] = await gateway.pair(String(refused.headers['x-request-id']))
      assert.deepEqual([request.path, request.ip, response.statusCode], [path, address, 429])
    }
    assert.equal((await ask('/open', '192.0.2.3')).status, 200)
    const refusals = 'gateway_refusals_total{code="address_rate_exceeded"}'
    await until(async () => ((await gateway.metric(refusals)) === 2 ? true : undefined))
  })

  it('uses up its rate also by requests whose target or body is refused', async () => {
    const address = '192.0.2.4'
    const chunk = 'Transfer-Encoding: chunked\r\n\r\nno chunk\r\n'
    const requests = [
      ['/%00', ''],
      ['/%zz', ''],
      ['/open', chunk],
      ['/%00', ''],
      ['/open', chunk],
    ] as const
    const statuses = []
    for (const [target, rest] of requests) statuses.push(await statusOf(target, address, rest))
    assert.deepEqual(statuses, ['400', '400', '400', '429', '429'])
    assert.equal((await ask('/open', address)).status, 429)
    assert.equal((await ask('/open', '192.0.2.5')).status, 200)
  })

  /** The status of a request that no HTTP library sends. */
  async function statusOf(target: string, address: string, rest: string): Promise<string | undefined> {
    const socket = connect(gateway.port, '127.0.0.1')
    socket.end(`GET ${target} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${address}\r\n${rest || '\r\n'}`)
    return /^HTTP\/1\.1 (\d{3})/.exec(await text(socket))?.[1]
  }
})

it('the rate of an address keeps its counts through an edit that is refused', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-rate-'))
  const file = join(dir, 'key')
  writeFileSync(file, `${'o'.repeat(32)}\n`)
  const config = {
    upstream: 'http://127.0.0.1:9',
    idempotencyKeyFile: file,
    routes: [{ path: '/keyed', auth: ['bearer'], idempotency: {} }],
  }
  const rated = (requests: number) => ({ ...config, addressRate: { requests, window: '1h' } })
  const gateway = await startGateway({ config: rated(1) })
  t.after(async () => {
    await gateway.end()
    rmSync(dir, { recursive: true })
  })
  const status = async () => (await call(`${gateway.url}/nowhere`)).status
  assert.deepEqual([await status(), await status()], [404, 429])
  // The edit is refused, because without the old line the gateway would forget keys.
  writeFileSync(file, `${'n'.repeat(32)}\n`)
  await assert.rejects(gateway.become({ config }), /not in force/)
  writeFileSync(file, `${'o'.repeat(32)}\n`)
  await gateway.become({ config: rated(2) })
  assert.deepEqual([await status(), await status()], [404, 429])
})
