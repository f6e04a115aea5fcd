import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Deadlines } from '../../edge/syntax/deadlines.ts'
import { Health } from '../balancing/health.ts'
import { scriptedUpstream } from '../contract/scripted.test-support.ts'
import { parseAddress } from '../upstream-address.ts'
import { ConnectionPool } from './http1-connection.ts'

describe('the connections to an upstream', () => {
  it('leave nothing behind: a closed connection has no deadline, and makes room', async (t) => {
    const scripted = await scriptedUpstream({})
    const clock = (): number => 0
    const deadlines = new Deadlines(clock)
    const [added, removed] = [t.mock.method(deadlines, 'add'), t.mock.method(deadlines, 'remove')]
    const connections = new ConnectionPool({
      address: parseAddress(scripted.url),
      connectMs: 1000,
      maxConnections: 2,
      clock,
      health: new Health(clock, () => {}),
      deadlines,
    })
    for (let round = 1; round <= 3; round++) {
      const leased = [connections.lease(false, 0), connections.lease(true, 0)]
      assert.equal(connections.lease(false, 0), undefined)
      for (const connection of leased) {
        connection?.destroy()
        connection?.destroy()
      }
      assert.deepEqual([added.mock.callCount(), removed.mock.callCount()], [round * 2, round * 2])
    }
    await connections.close()
    await scripted.close()
  })
})
