import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { call } from './client.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { headerOf, openWire } from './wire.ts'

const SECRET = 'the-secret-of-gateway-and-service-0123456789'

describe('the secret between gateway and service', () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-secret-'))
  const seen: IncomingHttpHeaders[] = []
  let upstream: TestUpstream
  let gateway: TestGateway

  before(async () => {
    upstream = await startUpstream((req, res) => {
      seen.push(req.headers)
      // The gateway must remove the secret, even if the service repeats it.
      res.setHeader('X-Gateway-Secret', String(req.headers['x-gateway-secret']))
      res.end('{}')
    })
    upstream.server.on('upgrade', (req, socket) => {
      seen.push(req.headers)
      socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n')
    })
    writeFileSync(join(dir, 'secret'), `${SECRET}\n`)
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        trustedProxies: ['127.0.0.1'],
        routes: [{ path: '/*', auth: ['none'] }],
      },
      env: { GATEWAY_UPSTREAM_SECRET_FILE: join(dir, 'secret'), GATEWAY_LOG_LEVEL: 'trace' },
    })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
    rmSync(dir, { recursive: true, force: true })
  })

  it('is sent once, whatever a client or a trusted proxy sends in its place', async () => {
    for (const headers of [
      {},
      { 'X-Gateway-Secret': 'forged' },
      { 'x-gateway-secret': ['forged', SECRET] },
      { 'X-Gateway-Secret': 'forged', Connection: 'keep-alive, X-Gateway-Secret' },
    ]) {
      const response = await call(`${gateway.url}/a`, { headers })
      assert.equal(response.status, 200)
      assert.equal(seen.at(-1)?.['x-gateway-secret'], SECRET)
      assert.equal(response.headers['x-gateway-secret'], undefined)
    }
  })

  it('is sent with an upgrade', async () => {
    const wire = await openWire(gateway.port)
    wire.send(
      'GET /ws HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    )
    assert.equal(headerOf(await wire.ended(), 'x-gateway-secret'), undefined)
    assert.equal(seen.length, 5)
    assert.equal(seen.at(-1)?.['x-gateway-secret'], SECRET)
  })

  it('is in no log and no trail', () => {
    assert.doesNotMatch(JSON.stringify(gateway.process.lines) + gateway.process.plain(), new RegExp(SECRET))
    assert.doesNotMatch(readFileSync(gateway.auditFile, 'utf8'), new RegExp(SECRET))
  })
})
