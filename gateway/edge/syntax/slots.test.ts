import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { Slots, type Slotted } from './slots.ts'

describe('slots', () => {
  it('hold what was added and not removed, whatever the order', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20)), (choices) => {
        const slots = new Slots<Slotted>()
        const model = new Set<Slotted>()
        for (const choice of choices) {
          const old = [...model][choice]
          if (old === undefined) {
            const one = { slot: -1 }
            model.add(one)
            slots.add(one)
          } else {
            model.delete(old)
            slots.remove(old)
          }
          assert.equal(slots.size, model.size)
        }
        const found: Slotted[] = []
        slots.visitAll((one) => found.push(one))
        assert.equal(found.length, model.size)
        assert.deepEqual(new Set(found), model)
      }),
    )
  })

  it('are not changed by removing what was never added, or was removed already', () => {
    const slots = new Slots<Slotted>()
    const [one, other] = [{ slot: -1 }, { slot: -1 }]
    slots.add(one)
    slots.add(other)
    slots.remove(one)
    slots.remove(one)
    slots.remove({ slot: -1 })
    const found: Slotted[] = []
    slots.visitAll((still) => found.push(still))
    assert.deepEqual([slots.size, found], [1, [other]])
  })

  it('can be emptied while they are visited', () => {
    const slots = new Slots<Slotted>()
    const all = Array.from({ length: 5 }, () => ({ slot: -1 }))
    for (const one of all) slots.add(one)
    slots.visitAll(() => {
      for (const one of all.splice(0, 2)) slots.remove(one)
    })
    assert.equal(slots.size, 0)
  })
})
