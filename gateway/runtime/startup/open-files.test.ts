import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { connectionRoom } from '../public-listeners.ts'

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
