import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { startBeats } from './beats.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { openWire } from './wire.ts'

interface Held {
  readonly req: IncomingMessage
  readonly res: ServerResponse
}

describe('a client that goes away before the response', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const held: Held[] = []

  before(async () => {
    upstream = await startUpstream((req, res) => {
      if (req.url?.startsWith('/held')) held.push({ req: req.resume(), res })
      else res.end('fine')
    })
    const routes = [
      { path: '/held', auth: ['none'] },
      { path: '/mine', auth: ['bearer'] },
    ]
    gateway = await startGateway({ config: { upstream: upstream.url, routes } })
  })
  after(async () => {
    await gateway.end('SIGKILL')
    upstream.close()
  })

  /** Sends the request, waits until the service has it, and resets the connection. */
  async function sendAndReset(method: string, body: string): Promise<Held> {
    held.length = 0
    const id = `left-${method}-${body.length}-${Date.now()}`
    const wire = await openWire(gateway.port)
    const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`
    wire.send(`${method} /held HTTP/1.1\r\nHost: gateway\r\nX-Request-ID: ${id}\r\n${length}\r\n${body}`)
    const taken = await until(() => held[0])
    wire.socket.resetAndDestroy()
    assert.equal((await gateway.pair(id))[1].statusCode, 499)
    return taken
  }

  const statusWith = async (token: string) =>
    (await call(`${gateway.url}/mine`, { headers: { authorization: `Bearer ${token}` } })).status

  for (const [method, body] of [
    ['POST', ''],
    ['PATCH', '{"password":"another one"}'],
    ['DELETE', ''],
  ] as const) {
    it(`cannot keep a session alive that the service ends: ${method}`, async () => {
      const sid = `ended-by-${method}`
      const token = await upstream.issuer.token({ sid })
      assert.equal(await statusWith(token), 200)
      const { res } = await sendAndReset(method, body)
      res.writeHead(204, { 'X-Revoke-Session': sid }).end()
      await until(async () => ((await statusWith(token)) === 401 ? true : undefined))
    })
  }

  it('cancels a GET at once, and a POST soon', async () => {
    for (const [method, mostMs] of [
      ['GET', 3000],
      // The gateway waits five seconds, because the response may end a session.
      ['POST', 15_000],
    ] as const) {
      const { req } = await sendAndReset(method, '')
      const beats = startBeats()
      if (!req.socket.destroyed) await once(req.socket, 'close')
      assert.ok(beats.elapsedMs() < mostMs, method)
      await until(async () =>
        (await gateway.metric('gateway_http_requests_in_flight')) === 0 ? true : undefined,
      )
    }
  })
})
