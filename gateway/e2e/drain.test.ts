import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { afterEach, describe, it } from 'node:test'
import { withinBeats } from './beats.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { headerOf, openWire, statuses } from './wire.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
/** Longer than any test takes, even on a busy machine. */
const LONG_GRACE_MS = '600000'
/** Bound for what takes 100 ms on an idle machine. */
const SOON_MS = 30_000

describe('the end of a gateway under load', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const held: ServerResponse[] = []

  const start = async (graceMs: string, drainMs = 5000) => {
    held.length = 0
    upstream = await startUpstream((req, res) => {
      if (req.url === '/held') held.push(res)
      else res.end('whole')
    })
    gateway = await startGateway({
      config: { upstream: upstream.url, timeouts: { drainMs }, routes: [{ path: '/*', auth: ['none'] }] },
      env: { GATEWAY_DRAIN_GRACE_MS: graceMs },
    })
  }
  afterEach(() => {
    gateway.process.child.kill('SIGKILL')
    upstream.close()
  })
  const draining = () => gateway.process.line(({ msg }) => msg === 'draining')
  const refuses = () =>
    until(() =>
      call(gateway.url).then(
        () => undefined,
        (error) => (/ECONNREFUSED/.test(String(error)) ? true : undefined),
      ),
    )

  it('begins with the grace: not ready, but every request is served and closes its connection', async () => {
    await start(LONG_GRACE_MS)
    const kept = await openWire(gateway.port)
    kept.send(GET)
    await kept.has('whole')
    assert.equal(headerOf(kept.received, 'connection'), 'keep-alive')
    gateway.process.child.kill('SIGTERM')
    await draining()
    assert.equal((await call(`${gateway.adminUrl}/readyz`)).status, 503)

    kept.send(GET)
    const [, second = ''] = (await kept.ended()).split('whole')
    assert.deepEqual(statuses(kept.received), [200, 200])
    assert.match(second, /Connection: close/)
    assert.equal(kept.over, 'end')
    for (let i = 0; i < 8; i++) {
      const response = await call(gateway.url)
      assert.deepEqual([response.status, response.headers.connection], [200, 'close'])
    }
  })

  it('comes after the grace, when admitted requests are done, and does not wait for idle connections', async () => {
    await start('300')
    const idle = await openWire(gateway.port)
    idle.send(GET)
    await idle.has('whole')
    const slow = call(`${gateway.url}/held`)
    await until(() => (held.length === 1 ? true : undefined))
    const signalledMs = performance.now()
    gateway.process.child.kill('SIGTERM')
    await idle.ended()
    assert.equal(idle.over, 'end')
    assert.ok(performance.now() - signalledMs >= 300)
    await refuses()
    held[0]?.end('done')
    assert.equal((await slow).body, 'done')
    assert.equal(await gateway.process.ended, 0)
    assert.equal(gateway.audit().at(-1)?.type, 'AUDIT_STOP')
  })

  it('waits for a request that was half sent when the grace ended', async () => {
    await start('0')
    const first = await openWire(gateway.port)
    first.send('GET /held HTTP/1.1\r\nHost: a\r\n\r\n')
    const begun = await openWire(gateway.port)
    begun.send(`${GET}GET / HTTP/1.1\r\n`)
    // The beginning of the second request came with the first one.
    await begun.has('whole')
    await until(() => (held.length === 1 ? true : undefined))
    gateway.process.child.kill('SIGTERM')
    await draining()
    await refuses()
    begun.send('Host: a\r\n\r\n')
    await begun.ended()
    assert.deepEqual(statuses(begun.received), [200, 200])
    held[0]?.end('done')
    await first.ended()
    assert.deepEqual(statuses(first.received), [200])
    assert.equal(await gateway.process.ended, 0)
  })

  it('comes without the grace after SIGINT', async () => {
    await start(LONG_GRACE_MS)
    assert.equal(await withinBeats(SOON_MS, gateway.end('SIGINT')), 0)
  })

  it('comes without the grace after a second signal', async () => {
    await start(LONG_GRACE_MS)
    gateway.process.child.kill('SIGTERM')
    await draining()
    // The gateway takes a second signal within a second for the same one.
    await new Promise((resolve) => setTimeout(resolve, 1100))
    assert.equal(await withinBeats(SOON_MS, gateway.end('SIGTERM')), 0)
  })
})
