import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Holders, type Occupant, type Place } from './connection-holders.ts'

interface TestPlace extends Place {
  occupant: Occupant
}

function placeIn(holders: Holders, network: string, occupant: Partial<Occupant> = {}): TestPlace {
  const holder = holders.holderOf(network, network.startsWith('proxy'))
  const place = { slot: -1, holder, occupant: { isIdle: true, deadlineMs: 0, ...occupant }, close: () => {} }
  holders.add(place)
  return place
}

describe('the holders of connections', () => {
  it('are known while they have any, and as one for each network', () => {
    const holders = new Holders()
    const first = placeIn(holders, 'a')
    const second = placeIn(holders, 'a')
    assert.equal(first.holder, second.holder)
    assert.deepEqual([holders.size, holders.largest], [2, 2])
    holders.remove(first)
    holders.remove(first)
    assert.deepEqual([holders.size, holders.largest], [1, 1])
    holders.remove(second)
    assert.deepEqual([holders.size, holders.largest], [0, 0])
    assert.notEqual(holders.holderOf('a', false), first.holder)
  })

  it('lose the connection that has been idle for longest, and none on which something is asked', () => {
    const holders = new Holders()
    const places = [5, 3, 4].map((deadlineMs) => placeIn(holders, 'a', { deadlineMs }))
    placeIn(holders, 'a', { isIdle: false, deadlineMs: 1 })
    const { holder } = places[0] as Place
    assert.equal(holders.idleOf(holder), places[1])
    for (const place of places) place.occupant = { isIdle: false, deadlineMs: 0 }
    assert.equal(holders.idleOf(holder), undefined)
    assert.equal(holders.idleOfLargest(), undefined)
  })

  it('are asked in the order of what they hold, proxies last', () => {
    const holders = new Holders()
    const ofProxy = Array.from({ length: 9 }, () => placeIn(holders, 'proxy'))
    const few = placeIn(holders, 'few', { deadlineMs: 1 })
    const many = [3, 2].map((deadlineMs) => placeIn(holders, 'many', { deadlineMs }))
    assert.equal(holders.largest, 2)
    assert.equal(holders.idleOfLargest(), many[1])
    assert.equal(holders.anyOfLargest()?.holder.network, 'many')
    for (const place of many) place.occupant = { isIdle: false, deadlineMs: 0 }
    assert.equal(holders.idleOfLargest(), few)
    few.occupant = { isIdle: false, deadlineMs: 0 }
    assert.ok(ofProxy.includes(holders.idleOfLargest() as TestPlace))
  })

  it('find an idle one in time also when thousands are not', () => {
    const holders = new Holders()
    for (let i = 0; i < 5000; i++) placeIn(holders, 'a', { isIdle: false })
    const idle = placeIn(holders, 'a')
    let looks = 0
    while (holders.idleOf(idle.holder) === undefined) looks++
    assert.ok(looks < 5001 / 16 + 1, `${looks}`)
  })

  it('are counted right, whoever comes and goes', () => {
    const networks = fc.constantFrom('a', 'b', 'c', 'd', 'proxy')
    fc.assert(
      fc.property(fc.array(fc.tuple(networks, fc.boolean(), fc.nat(50)), { maxLength: 200 }), (steps) => {
        const holders = new Holders()
        const open: TestPlace[] = []
        for (const [network, comes, which] of steps) {
          if (comes || open.length === 0) open.push(placeIn(holders, network))
          else holders.remove(open.splice(which % open.length, 1)[0] as Place)
          const counts = new Map<string, number>()
          for (const { holder } of open) counts.set(holder.network, (counts.get(holder.network) ?? 0) + 1)
          for (const { holder } of open) assert.equal(holder.connections.size, counts.get(holder.network))
          counts.delete('proxy')
          assert.deepEqual([holders.size, holders.largest], [open.length, Math.max(0, ...counts.values())])
        }
      }),
    )
  })
})
