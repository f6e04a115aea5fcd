import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Notes, seatBytes } from './notes.ts'
import { responseTo } from './records.ts'
import { requestLine } from './trail.test-support.ts'

function seatFor(maxOpen: number): DataView<SharedArrayBuffer> {
  return new DataView(new SharedArrayBuffer(seatBytes(maxOpen)))
}

test('whatever is added and removed, a seat holds just what is open, by either line of the pair', () => {
  const step = fc.record({ add: fc.boolean(), id: fc.nat(40) })
  const law = fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
    const notes = new Notes(seatFor(128))
    const open: number[] = []
    for (const { add, id } of steps) {
      if (add && open.length < 128) {
        notes.add(requestLine(String(id)))
        open.push(id)
      } else if (!add) {
        const at = open.indexOf(id)
        if (at !== -1) open.splice(at, 1)
        assert.equal(notes.remove(responseTo(requestLine(String(id)), 200, 1)), at !== -1)
      }
      assert.equal(notes.count, open.length)
    }
    for (const id of open) assert.equal(notes.remove(requestLine(String(id))), true)
    assert.equal(notes.count, 0)
  })
  fc.assert(law, { numRuns: 200 })
})

test('more than a seat has room for is not noted, and loses nothing that is', () => {
  const notes = new Notes(seatFor(4))
  for (let i = 0; i < 10; i++) notes.add(requestLine(String(i)))
  assert.equal(notes.count, 4)
  for (let i = 0; i < 10; i++) assert.equal(notes.remove(requestLine(String(i))), i < 4)
})
