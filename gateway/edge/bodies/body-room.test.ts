import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BodyRoom, type WaitingBody } from './body-room.ts'

const MIB = 1024 * 1024
const bodyOf = (keyId: string, network: string): WaitingBody => ({ keyId, network, bytes: 0 })

/** Takes as many MiB as it gets, body by body. */
function takeAll(room: BodyRoom, keyId: string, network: string): WaitingBody[] {
  const bodies: WaitingBody[] = []
  for (;;) {
    const body = bodyOf(keyId, network)
    if (!room.take(body, MIB)) return bodies
    bodies.push(body)
  }
}

describe('the room for bodies that wait', () => {
  it('has 8 MiB for one address, over all keys', () => {
    const room = new BodyRoom()
    assert.equal(takeAll(room, 'a', '192.0.2.1').length, 8)
    assert.equal(takeAll(room, 'b', '192.0.2.1').length, 0)
    assert.equal(takeAll(room, 'b', '192.0.2.2').length, 8)
  })

  it('has 16 MiB for one key, and each address leaves some of them to the next', () => {
    const room = new BodyRoom()
    const taken = [1, 2, 3, 4].map((last) => takeAll(room, 'a', `192.0.2.${last}`).length)
    assert.deepEqual(taken, [8, 5, 2, 1])
    assert.equal(room.take(bodyOf('b', '192.0.2.9'), MIB), true)
  })

  it('has 64 MiB in all', () => {
    const room = new BodyRoom()
    let taken = 0
    for (let i = 0; i < 100; i++) taken += takeAll(room, `key ${i}`, `192.0.2.${i}`).length
    assert.equal(taken, 64)
  })

  it('leaves a part to one more address, whatever keys the other addresses name', () => {
    const room = new BodyRoom()
    for (let i = 0; i < 8; i++) takeAll(room, `key ${i}`, `192.0.2.${i}`)
    assert.equal(room.take(bodyOf('another', '192.0.2.9'), MIB), true)
  })

  it('is given back whole', () => {
    const room = new BodyRoom()
    const bodies = takeAll(room, 'a', '192.0.2.1')
    const unused = bodyOf('a', '192.0.2.1')
    assert.equal(room.take(unused, MIB), false)
    for (const body of [...bodies, ...bodies, unused]) room.release(body)
    assert.equal(takeAll(room, 'a', '192.0.2.1').length, 8)
  })
})
