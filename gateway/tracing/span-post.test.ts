import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { createPost, type Posted, retryAfterMs } from './span-post.ts'

describe('a post of spans', () => {
  let respond: (res: ServerResponse) => void
  const server = createServer((req, res) => {
    req.resume().on('end', () => respond(res))
  })
  const post = (timeoutMs = 60_000): Promise<Posted> =>
    createPost({
      endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`,
      headers: [],
      ca: undefined,
      compression: 'none',
      timeoutMs,
    })(Buffer.from('{}'), new AbortController().signal)

  before(async () => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  after(() => {
    server.close()
    server.closeAllConnections()
  })

  it('is delivered with a status of success, whatever the response says or holds back', async () => {
    const good = { delivered: true, rejected: 0, reason: '' }
    for (const body of ['', '{}', 'garbage', '[]', 'null', '{"partialSuccess":{"rejectedSpans":-1}}']) {
      respond = (res) => res.end(body)
      assert.deepEqual(await post(), good, body)
    }
    for (const status of [202, 204]) {
      respond = (res) => res.writeHead(status).end()
      assert.deepEqual(await post(), good, String(status))
    }
    respond = (res) => res.write('{"partial')
    assert.deepEqual(await post(2000), good)
    respond = (res) => res.end('x'.repeat(1_000_000))
    assert.deepEqual(await post(), good)
    const message = 'm'.repeat(1000)
    respond = (res) =>
      res.end(JSON.stringify({ partialSuccess: { rejectedSpans: '3', errorMessage: message } }))
    assert.deepEqual(await post(), { delivered: true, rejected: 3, reason: 'm'.repeat(200) })
  })

  it('may be repeated after the statuses that the specification names, and after faults of the network', async () => {
    const outcomes: [number, boolean][] = []
    for (const status of [301, 400, 401, 404, 413, 429, 500, 501, 502, 503, 504]) {
      respond = (res) => res.writeHead(status).end()
      const posted = await post()
      outcomes.push([status, !posted.delivered && posted.mayRetry])
    }
    assert.deepEqual(
      outcomes.filter(([, mayRetry]) => mayRetry).map(([status]) => status),
      [429, 502, 503, 504],
    )
    respond = (res) => res.writeHead(400).end('x'.repeat(1_000_000))
    const long = await post()
    assert.ok(!long.delivered && !long.mayRetry)
    for (const fails of [
      (res: ServerResponse) => res.destroy(),
      (res: ServerResponse) => res.socket?.end('garbage'),
      () => {},
    ]) {
      respond = fails
      const posted = await post(200)
      assert.ok(!posted.delivered && posted.mayRetry && posted.cause !== '')
    }
  })

  it('waits as long as it is told to, in seconds or until a date, and at most a minute', () => {
    assert.deepEqual(
      [
        '0',
        '7',
        '99999999',
        'Tue, 01 Jan 2030 00:00:05 GMT',
        'Mon, 01 Jan 2029 00:00:00 GMT',
        'soon',
        '',
      ].map((value) => retryAfterMs(value, Date.UTC(2030, 0, 1))),
      [0, 7000, 60_000, 5000, 0, undefined, undefined],
    )
  })
})
