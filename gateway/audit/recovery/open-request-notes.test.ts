import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { requestRecord, responseTo } from '../audit-records.ts'
import { requestLine } from '../trail.test-support.ts'
import { OpenRequestNotes, seatBytes } from './open-request-notes.ts'

function seatFor(maxOpen: number): DataView<SharedArrayBuffer> {
  return new DataView(new SharedArrayBuffer(seatBytes(maxOpen)))
}

/** More than its near table has room for. */
const ROOM = 160

test('after any additions and removals a seat holds exactly the open requests, removed by either line of a pair', () => {
  const step = fc.record({ add: fc.boolean(), id: fc.nat(40) })
  const law = fc.property(fc.array(step, { maxLength: 200 }), fc.nat(ROOM), (steps, openBefore) => {
    const notes = new OpenRequestNotes(seatFor(ROOM))
    const open: string[] = []
    const add = (id: string) => {
      notes.add(requestLine(id))
      open.push(id)
    }
    for (let i = 0; i < openBefore; i++) add(`before-${i}`)
    for (const { add: adds, id } of steps) {
      if (adds && open.length < ROOM) add(String(id))
      else if (!adds) {
        const at = open.indexOf(String(id))
        if (at !== -1) open.splice(at, 1)
        assert.equal(notes.remove(responseTo(requestLine(String(id)), 200, 1)), at !== -1)
      }
      assert.equal(notes.count, open.length)
    }
    for (const id of open) assert.equal(notes.remove(requestLine(id)), true)
    assert.equal(notes.count, 0)
  })
  fc.assert(law, { numRuns: 200 })
})

test('requests are distinguished by id and time of day', () => {
  const anyId = fc.stringMatching(/^[A-Za-z0-9._:/+=@-]{1,40}$/)
  const law = fc.property(anyId, fc.nat(86_399_998), (id, ms) => {
    const notes = new OpenRequestNotes(seatFor(ROOM))
    notes.add(lineOf(id, ms))
    assert.equal(notes.remove(lineOf(id, ms + 1)), false)
    assert.equal(notes.remove(lineOf(`${id}x`, ms)), false)
    assert.equal(notes.remove(lineOf(id, ms)), true)
  })
  fc.assert(law)
})

test("requests with the same id and time are distinguished by the gateway's ids", () => {
  const law = fc.property(fc.uuid(), fc.uuid(), (one, other) => {
    fc.pre(one !== other)
    const notes = new OpenRequestNotes(seatFor(ROOM))
    notes.add(lineOf('same', 0, one))
    assert.equal(notes.remove(lineOf('same', 0, other)), false)
    assert.equal(notes.remove(lineOf('same', 0)), false)
    assert.equal(notes.remove(responseTo(lineOf('same', 0, one), 200, 1)), true)
  })
  fc.assert(law)
})

test('a pair is found whatever characters its id has', () => {
  const law = fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (id) => {
    const notes = new OpenRequestNotes(seatFor(ROOM))
    notes.add(lineOf(id, 0))
    assert.equal(notes.remove(responseTo(lineOf(id, 0), 200, 1)), true)
  })
  fc.assert(law)
})

test('requests beyond the room of a seat are not noted, and those noted are kept', () => {
  const notes = new OpenRequestNotes(seatFor(ROOM))
  for (let i = 0; i < 200; i++) notes.add(requestLine(String(i)))
  assert.equal(notes.count, ROOM)
  for (let i = 0; i < 200; i++) assert.equal(notes.remove(requestLine(String(i))), i < ROOM)
})

function lineOf(requestId: string, ms: number, gatewayId?: string): string {
  return requestRecord({
    requestId,
    timestamp: new Date(ms).toISOString(),
    method: 'GET',
    path: '/',
    userId: undefined,
    clientId: undefined,
    ip: '',
    userAgent: '',
    gatewayId,
  })
}
