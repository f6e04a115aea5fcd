import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClientNetworks } from '../edge/http1/client-networks.ts'
import { type Share, UpstreamPermits } from './upstream-permits.ts'

const caller = (isProxy = false): Share => ({ permits: 0, isProxy })

/** As many as it can get. */
function takeAll(permits: UpstreamPermits, share: Share): number {
  while (permits.take(share));
  return share.permits
}

describe('the permits to use the upstream', () => {
  it('are never all taken by one caller: the next one still gets some', () => {
    const permits = new UpstreamPermits(16)
    const greedy = caller()
    assert.equal(takeAll(permits, greedy), 12)
    assert.equal(permits.take(caller()), true)
    assert.equal(permits.areExhausted, false)
    permits.release(greedy)
    assert.deepEqual([greedy.permits, permits.taken], [11, 12])
  })

  it('may all be taken by a proxy, which acts for many', () => {
    const permits = new UpstreamPermits(16)
    assert.equal(takeAll(permits, caller(true)), 16)
    assert.deepEqual([permits.areExhausted, permits.take(caller())], [true, false])
  })

  it('are counted for those whom a proxy names, and forgotten when they have none', () => {
    const permits = new UpstreamPermits(16)
    takeAll(permits, permits.shareOf('a'))
    assert.equal(permits.shareOf('a').permits, 12)
    assert.equal(permits.take(permits.shareOf('b')), true)
    const share = permits.shareOf('a')
    for (let i = 0; i < 12; i++) permits.release(share)
    assert.notEqual(permits.shareOf('a'), share)
    assert.equal(permits.taken, 1)
  })

  it('stay those of an address whose connections are closed, until they are given back', () => {
    const permits = new UpstreamPermits(8)
    const networks = new ClientNetworks()
    const connect = () => {
      const activity = { isIdle: true, deadlineMs: 0 }
      const connection = { slot: -1, network: networks.networkNamed('a', false), activity, close: () => {} }
      networks.add(connection)
      return connection
    }
    const first = connect()
    assert.equal(takeAll(permits, first.network), 6)
    networks.remove(first)
    const again = connect()
    assert.equal(permits.take(again.network), false)
    networks.remove(again)
    for (let i = 0; i < 6; i++) permits.release(first.network)
    assert.notEqual(connect().network, first.network)
  })
})
