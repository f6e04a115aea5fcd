import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { type KeyEntry, KeyIndex, keyEntry } from './key-index.ts'

it('keys are found by id, and the keys of a caller from the oldest on, also when ids have the same code', () => {
  // The code is made of the characters behind the name of the secret.
  const id = fc.constantFrom('AAAAAA', 'BBBBBB').chain((name) => fc.nat(5).map((n) => `${name}same.${n}`))
  const step = fc.record({ adds: fc.boolean(), id, caller: fc.constantFrom('one', 'other') })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const index = new KeyIndex()
      const model = new Map<string, KeyEntry>()
      const gone: KeyEntry[] = []
      for (const one of steps) {
        const known = model.get(one.id)
        if (!one.adds) for (const entry of [known, ...gone]) entry && index.delete(entry)
        if (!one.adds && known !== undefined) gone.push(known)
        if (!one.adds) model.delete(one.id)
        else if (known === undefined) {
          const entry = keyEntry(one.id, one.caller, 0, 0)
          model.set(one.id, entry)
          index.add(entry)
        }
        assert.equal(index.get(one.id), model.get(one.id))
      }
      assert.equal(index.size, model.size)
      assert.deepEqual(new Set(index), new Set(model.values()))
      for (const caller of ['one', 'other']) {
        const own: KeyEntry[] = []
        for (let entry = index.oldestOf(caller); entry !== undefined; entry = entry.newer) own.push(entry)
        const expected = [...model.values()].filter((entry) => entry.caller === caller)
        assert.deepEqual([own.length, index.countOf(caller)], [expected.length, expected.length])
        assert.ok(own.every((entry, at) => entry === expected[at]))
      }
    }),
    { numRuns: 200 },
  )
})
