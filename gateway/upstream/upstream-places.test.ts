import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Share, UpstreamPlaces } from './upstream-places.ts'

const caller = (isProxy = false): Share => ({ places: 0, isProxy })

function placesFor(max: number, { threads = 1, takenByOthers = (): number => 0 } = {}) {
  return new UpstreamPlaces({ max, threads, takenByOthers })
}

/** As many as it can get. */
function takeAll(places: UpstreamPlaces, share: Share): number {
  while (places.take(share));
  return share.places
}

describe('the places upstream', () => {
  it('are never all taken by one caller: the next one still gets some', () => {
    const places = placesFor(16)
    const greedy = caller()
    assert.equal(takeAll(places, greedy), 12)
    assert.equal(places.take(caller()), true)
    assert.equal(places.areFull, false)
    places.release(greedy)
    assert.deepEqual([greedy.places, places.taken], [11, 12])
  })

  it('may all be taken by a proxy, which acts for many', () => {
    const places = placesFor(16)
    assert.equal(takeAll(places, caller(true)), 16)
    assert.deepEqual([places.areFull, places.take(caller())], [true, false])
  })

  it('are counted for those whom a proxy names, and forgotten when they have none', () => {
    const places = placesFor(16)
    takeAll(places, places.shareOf('a'))
    assert.equal(places.shareOf('a').places, 12)
    assert.equal(places.take(places.shareOf('b')), true)
    const share = places.shareOf('a')
    for (let i = 0; i < 12; i++) places.release(share)
    assert.notEqual(places.shareOf('a'), share)
    assert.equal(places.taken, 1)
  })

  it('are bounded with those of other threads, where a caller is taken to have as many', () => {
    let takenByOthers = 0
    const places = placesFor(16, { threads: 2, takenByOthers: () => takenByOthers })
    takenByOthers = 6
    assert.equal(takeAll(places, caller()), 6)
    takenByOthers = 10
    assert.equal(places.areFull, true)
    assert.equal(places.take(caller(true)), false)
    assert.equal(places.taken, 6)
  })
})
