import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { call } from './client.ts'
import { commonGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const MAX_CHARS = 32_768

describe('a gateway that allows heads of 65536 bytes and 256 fields', () => {
  let keys: TestUpstream
  let gateway: TestGateway
  let longest = ''
  const service = createServer({ maxHeaderSize: 131_072 }, (req, res) => res.end(req.headers.authorization))

  before(async () => {
    keys = await startUpstream()
    service.maxHeadersCount = 0
    service.listen(0, '127.0.0.1')
    await once(service, 'listening')
    gateway = await commonGateway({
      config: {
        upstream: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
        jwksUri: `${keys.url}/.well-known/jwks.json`,
        http2: true,
        maxHeaderBytes: 65_536,
        maxHeaderFields: 256,
        tokens: { maxChars: MAX_CHARS },
        routes: [
          { path: '/mine', auth: ['bearer'] },
          { path: '/all', auth: ['none'] },
        ],
      },
    })
    // A claim grows by three bytes for each four characters of the token.
    const short = await keys.issuer.token({ pad: '' })
    const pad = Math.floor(((MAX_CHARS - short.length) * 3) / 4)
    for (let less = 0; longest.length === 0 || longest.length > MAX_CHARS; less++)
      longest = await keys.issuer.token({ pad: 'x'.repeat(pad - less) })
  })
  after(async () => {
    service.close()
    keys.close()
  })

  const overHttp2 = async (headers: Record<string, string>) => {
    const session = connect(gateway.url, { maxSendHeaderBlockLength: 262_144 })
    const stream = session.request(headers)
    const [{ ':status': status }] = (await once(stream, 'response')) as [{ ':status': number }]
    stream.resume()
    session.destroy()
    return status
  }
  const many = (fields: number) =>
    Object.fromEntries(Array.from({ length: fields }, (_, index) => [`x-${index}`, '1']))

  it('takes the longest token, by HTTP/1.1 and HTTP/2', async () => {
    assert.ok(longest.length > MAX_CHARS - 4, `${longest.length}`)
    const headers = { authorization: `Bearer ${longest}` }
    assert.equal((await call(`${gateway.url}/mine`, { headers })).status, 200)
    assert.equal(await overHttp2({ ':path': '/mine', ...headers }), 200)
  })

  it('takes many or long fields, and refuses more or longer ones', async () => {
    for (const [headers, status] of [
      [many(240), 200],
      [many(257), 431],
      [{ 'x-long': 'x'.repeat(60_000) }, 200],
      [{ 'x-long': 'x'.repeat(66_000) }, 431],
    ] as const) {
      assert.equal((await call(`${gateway.url}/all`, { headers })).status, status)
      assert.equal(await overHttp2({ ':path': '/all', ...headers }), status)
    }
  })
})
