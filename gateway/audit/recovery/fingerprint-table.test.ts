import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { FingerprintTable } from './fingerprint-table.ts'

const MAX = 8
/** Of a removal: all others moved, the gap cleared, the count. */
const MOST_WRITES = 2 * (MAX - 1) + 2 + 1
const fingerprint = fc.record({
  // All homes of the table, its last places among them, and some that differ beyond.
  low: fc.oneof(fc.nat(15), fc.constantFrom(-1, -2, 16, 32)),
  high: fc.constantFrom(1, 2, -1),
})
const step = fc.record({ verb: fc.constantFrom('add', 'remove'), fingerprint })

test('after any additions and removals a table holds exactly the fingerprints added, each as often', () => {
  const law = fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
    const table = new FingerprintTable(new Int32Array(FingerprintTable.wordsFor(MAX)))
    const model: string[] = []
    for (const { verb, fingerprint } of steps) {
      const name = JSON.stringify(fingerprint)
      const at = model.indexOf(name)
      if (verb === 'remove') {
        assert.equal(table.remove(fingerprint), at !== -1)
        if (at !== -1) model.splice(at, 1)
      } else {
        const isFull = model.length === MAX
        assert.equal(table.add(fingerprint), !isFull)
        if (!isFull) model.push(name)
      }
      assert.equal(table.count, model.length)
    }
    for (const name of model) assert.equal(table.remove(JSON.parse(name)), true)
    assert.equal(table.count, 0)
  })
  fc.assert(law, { numRuns: 500 })
})

test('a thread that dies at any step of a removal leaves all other entries findable', () => {
  const distinct = fc.uniqueArray(fingerprint, {
    selector: (one) => JSON.stringify(one),
    minLength: 2,
    maxLength: MAX,
  })
  const law = fc.property(distinct, fc.nat(MOST_WRITES), ([removed, ...others], writes) => {
    const memory = new Int32Array(FingerprintTable.wordsFor(MAX))
    const before = new FingerprintTable(memory)
    for (const one of [...others, removed]) assert.ok(one && before.add(one))
    try {
      new FingerprintTable(endingAfter(writes, memory)).remove(removed ?? { low: 0, high: 0 })
    } catch (error) {
      assert.equal(error, ENDED)
    }
    const left = new FingerprintTable(memory)
    for (const one of others) assert.ok(left.remove(one), `${JSON.stringify(one)} is lost`)
  })
  fc.assert(law, { numRuns: 1000 })
})

test('a thread that dies at any step of an addition leaves all other entries findable and counted', () => {
  const law = fc.property(
    fc.array(fingerprint, { maxLength: MAX - 1 }),
    fingerprint,
    fc.nat(3),
    (others, added, writes) => {
      const memory = new Int32Array(FingerprintTable.wordsFor(MAX))
      const before = new FingerprintTable(memory)
      for (const one of others) before.add(one)
      try {
        new FingerprintTable(endingAfter(writes, memory)).add(added)
      } catch (error) {
        assert.equal(error, ENDED)
      }
      const left = new FingerprintTable(memory)
      assert.ok(left.count >= others.length)
      for (const one of others) assert.ok(left.remove(one), `${JSON.stringify(one)} is lost`)
      if (left.remove(added)) assert.ok(left.count >= 0)
    },
  )
  fc.assert(law, { numRuns: 500 })
})

const ENDED = new Error('the thread has ended')

/** The same words, which can be written so many times. */
function endingAfter(writes: number, memory: Int32Array): Int32Array {
  let left = writes
  return new Proxy(memory, {
    get: (words, property) => Reflect.get(words, property, words),
    set: (words, property, value) => {
      if (left-- === 0) throw ENDED
      return Reflect.set(words, property, value, words)
    },
  })
}
