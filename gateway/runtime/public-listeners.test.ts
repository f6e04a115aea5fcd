import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, it } from 'node:test'
import { CannotListen, connectionRoom, listen, startFailure } from './public-listeners.ts'

it('a place that is taken is named with the reason', async () => {
  const [first, second] = [createServer(), createServer()]
  const place = { host: '127.0.0.1', port: await listen(first, { host: '127.0.0.1', port: 0 }) }
  await assert.rejects(listen(second, place), (error: CannotListen) => {
    assert.deepEqual(error.place, place)
    return /EADDRINUSE/.test(error.message)
  })
  first.close()
})

it('servers that all ask to share a place may do so, and one that does not ask is told what to do', {
  skip: process.platform !== 'linux' && 'only Linux distributes connections among them',
}, async (t) => {
  const [first, second, third] = [createServer(), createServer(), createServer()]
  t.after(() => [first, second].map((server) => server.close()))
  const place = { host: '127.0.0.1', port: await listen(first, { host: '127.0.0.1', port: 0, shared: true }) }
  await listen(second, { ...place, shared: true })
  await assert.rejects(listen(third, { ...place, whenTaken: 'do this' }), /listen EADDRINUSE.*: do this$/)
})

it('a start is said to fail at listening only where it does', () => {
  const place = { host: '127.0.0.1', port: 1 }
  assert.deepEqual(startFailure(new CannotListen(place, new Error('listen EADDRINUSE'))), {
    what: 'cannot listen',
    host: '127.0.0.1',
    port: 1,
    cause: 'listen EADDRINUSE',
  })
  assert.deepEqual(startFailure(new Error('no thread')), { what: 'cannot start', cause: 'no thread' })
  assert.deepEqual(startFailure('odd'), { what: 'cannot start', cause: 'odd' })
})

describe('the room for connections', () => {
  it('is what the open files leave when every exchange and every tunnel has a connection upstream', () => {
    assert.equal(connectionRoom({ maxInFlight: 1024, maxTunnels: 512 }, 20_000), 20_000 - 256 - 2048 - 512)
  })

  it('is never nothing, however few files there are', () => {
    assert.equal(connectionRoom({ maxInFlight: 1024, maxTunnels: 512 }, 1024), 256)
    assert.equal(connectionRoom({ maxInFlight: 1024, maxTunnels: 512 }, 100), 64)
  })

  it('is computed from the limit of this system, or from the usual limit', () => {
    const room = connectionRoom({ maxInFlight: 1, maxTunnels: 1 })
    assert.ok(room >= 64 && Number.isSafeInteger(room))
  })
})
