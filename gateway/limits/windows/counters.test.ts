import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RowRecord } from '../table/row-matching.ts'
import { Counters, countersOutsideTable, KeyBudget } from './counters.ts'

const START = 1_763_692_800_000

function record(changes: Partial<RowRecord> = {}): RowRecord {
  return {
    id: 1,
    name: 'login',
    path: '/api/login',
    methods: null,
    limit: 2,
    windowMs: 60_000,
    horizonMs: null,
    ...changes,
  }
}

function counters(changes: Partial<RowRecord> = {}, max = 1000): Counters {
  const budget = new KeyBudget(max)
  const row = new Counters(record(changes), budget)
  budget.divide([row])
  return row
}

describe('counters', () => {
  test('count each key by itself', () => {
    const row = counters()
    assert.deepEqual(
      ['a', 'a', 'b', 'a', 'b', 'b'].map((key) => row.take(key, START).allowed),
      [true, true, true, false, true, false],
    )
  })

  test('drop idle keys a few at a time with the takes of others, until none is left', () => {
    const row = counters()
    for (let i = 0; i < 500; i++) row.take(`k${i}`, START)
    assert.equal(row.size, 500)
    const sizes: number[] = []
    for (let i = 0; i < 300; i++) {
      row.take('other', START + 60_000)
      sizes.push(row.size)
    }
    assert.equal(row.size, 1)
    for (const [i, size] of sizes.entries()) assert.ok((sizes[i - 1] ?? 501) - size <= 2)
  })

  test('stay as small as what is live under an endless flood of new keys', () => {
    const row = counters({}, 1_000_000)
    for (let i = 0; i < 100_000; i++) row.take(`k${i}`, START + i * 60)
    assert.ok(row.size < 3 * 1000, `holds ${row.size} keys, 1000 live`)
  })

  test('never drop a key that counts', () => {
    const row = counters({ limit: 1 })
    row.take('spent', START)
    for (let i = 0; i < 500; i++) row.take(`k${i}`, START + 59_000)
    assert.equal(row.take('spent', START + 59_999).allowed, false)
  })

  test('refuse a new key without budget, never give up a live one, and say when there is budget again', () => {
    const row = counters({ limit: 1 }, 10)
    for (let i = 0; i < 10; i++) assert.equal(row.take(`k${i}`, START + i).allowed, true)
    assert.deepEqual(row.take('late', START + 20), { allowed: false, remaining: 0, resetSeconds: 60 })
    for (let i = 0; i < 10; i++) assert.equal(row.take(`k${i}`, START + 30).allowed, false)
    assert.equal(row.take('late', START + 20 + 60_000).allowed, true)
    assert.ok(row.size <= 10)
  })

  test('find budget for a new key when an idle one can be dropped', () => {
    const row = counters({ limit: 1 }, 10)
    for (let i = 0; i < 10; i++) row.take(`k${i}`, START + i * 1000)
    assert.equal(row.take('late', START + 60_000).allowed, true)
    assert.equal(row.take('later', START + 60_000).allowed, false)
  })

  test('go on under an edited rule without losing a hit', () => {
    const row = counters()
    row.take('a', START)
    row.take('a', START + 1)
    row.edit(record({ limit: 3 }))
    assert.deepEqual([row.take('a', START + 2).allowed, row.take('a', START + 2).allowed], [true, false])
    row.edit(record({ limit: 1 }))
    // All three hits must expire before one fits under a limit of one.
    assert.deepEqual(row.take('a', START + 58_002), { allowed: false, remaining: 0, resetSeconds: 2 })
    assert.equal(row.take('a', START + 60_002).allowed, true)
  })

  test('carry a log over into slices and slices back into a log', () => {
    const row = counters()
    row.take('a', START)
    row.take('a', START + 1)
    row.edit(record({ limit: 1001 }))
    for (let i = 0; i < 1100; i++) row.take('a', START + 2)
    assert.equal(row.take('a', START + 2).allowed, false)
    row.edit(record({ limit: 4 }))
    assert.equal(row.take('a', START + 30_000).allowed, false)
    assert.equal(row.take('a', START + 60_001.75).allowed, false)
    assert.equal(row.take('a', START + 60_002).allowed, true)
    row.edit(record({ limit: 1001 }))
    for (let i = 0; i < 3; i++) row.take('a', START + 60_002)
    row.edit(record({ limit: 5 }))
    assert.deepEqual(row.take('a', START + 60_003), { allowed: true, remaining: 0, resetSeconds: 60 })
    assert.deepEqual([...row.entries(START + 60_003)].length, 5)
  })

  test('are exact again under a small limit as soon as fewer hits count than it lets through', () => {
    const row = counters({ limit: 1001 })
    for (let i = 0; i < 3; i++) row.take('a', START)
    row.edit(record({ limit: 5 }))
    row.take('a', START + 1)
    row.take('a', START + 1.25)
    assert.equal(row.take('a', START + 60_000.75).remaining, 2)
    assert.deepEqual(
      [...row.entries(START + 60_000.75)].map(([, [at]]) => at - START),
      [1, 1.25, 60_000.75],
    )
  })

  test('outside a table keep the hits that had not expired when their limit was edited', () => {
    const twice = (editedMs: number) => {
      const row = countersOutsideTable(2, 1000)
      row.take('a', START)
      row.take('a', START)
      row.limitTo(2, 60_000, START + editedMs)
      return row
    }
    assert.equal(twice(500).take('a', START + 500).allowed, false)
    const row = twice(1500)
    assert.deepEqual(row.take('a', START + 1500), { allowed: true, remaining: 1, resetSeconds: 60 })
    const { record: edited } = row
    assert.equal(edited.horizonMs, START + 500)
    row.limitTo(2, 60_000, START + 1600)
    assert.equal(row.record, edited)
    assert.equal(row.take('a', START + 1600).remaining, 0)
    assert.equal(row.take('a', START + 1600).allowed, false)
    row.limitTo(3, 60_000, START + 61_000)
    assert.equal(row.record.horizonMs, START + 500)
    assert.equal(row.take('a', START + 61_000).remaining, 0)
    assert.equal(row.take('a', START + 61_000).allowed, false)
  })

  test('hold many hits of one key in bounded memory, also after the limit went down or up', () => {
    const row = counters({ limit: 1_000_000 })
    for (let i = 0; i < 50_000; i++) row.take('a', START + i)
    row.edit(record({ limit: 10 }))
    assert.equal(row.take('a', START + 50_000).allowed, false)
    assert.ok([...row.entries(START + 50_000)].length <= 102)
    row.edit(record({ limit: 1000 }))
    for (let i = 0; i < 1000; i++) row.take('b', START + 50_000 + i)
    row.edit(record({ limit: 1_000_000 }))
    for (let i = 0; i < 9000; i++) row.take('b', START + 51_000 + i)
    const entries = [...row.entries(START + 60_000)].filter(([key]) => key === 'b')
    assert.ok(entries.length <= 102)
    assert.equal(
      entries.reduce((hits, [, [, count]]) => hits + count, 0),
      10_000,
    )
  })

  test('restore any number of hits of one key in bounded memory', () => {
    const row = counters({ limit: 10 })
    for (let i = 0; i < 3000; i++) row.restore('a', [START + i / 4, 1], START + 1000)
    row.restore('b', [START, 1_000_000], START + 1000)
    assert.ok([...row.entries(START + 1000)].length <= 4)
    assert.equal(row.take('a', START + 60_000).allowed, false)
    assert.equal(row.take('b', START + 60_000).allowed, true)
  })

  test('restore nothing that has expired, and everything else without asking for budget', () => {
    const row = counters({ limit: 1 }, 1)
    row.restore('gone', [START, 1], START + 60_000)
    row.restore('a', [START + 1, 1], START + 60_000)
    row.restore('b', [START + 1, 1], START + 60_000)
    assert.equal(row.size, 2)
    assert.deepEqual([...row.entries(START + 60_001)], [])
  })
})

describe('the budget for keys', () => {
  test('keeps a share for each row, whatever another row fills', () => {
    const budget = new KeyBudget(100)
    const [flooded, quiet] = [
      new Counters(record({ id: 1 }), budget),
      new Counters(record({ id: 2 }), budget),
    ]
    budget.divide([flooded, quiet])
    for (let i = 0; i < 200; i++) flooded.take(`k${i}`, START)
    assert.equal(flooded.size, 75)
    for (let i = 0; i < 200; i++) quiet.take(`k${i}`, START)
    assert.equal(quiet.size, 25)
  })

  test('comes back as keys are dropped', () => {
    const budget = new KeyBudget(100)
    const row = new Counters(record(), budget)
    budget.divide([row, new Counters(record({ id: 2 }), budget)])
    for (let round = 0; round < 5; round++) {
      for (let i = 0; i < 100; i++) row.take(`${round}-${i}`, START + round * 60_000)
      assert.equal(row.size, 75)
    }
  })

  test('takes idle keys back from rows that nobody calls any more', () => {
    const budget = new KeyBudget(100)
    const [quiet, busy] = [new Counters(record({ id: 1 }), budget), new Counters(record({ id: 2 }), budget)]
    budget.divide([quiet, busy])
    for (let i = 0; i < 75; i++) quiet.take(`k${i}`, START)
    assert.equal(quiet.size, 75)
    for (let i = 0; i < 26; i++) busy.take(`k${i}`, START + 59_999)
    assert.equal(busy.size, 25)
    for (let i = 0; i < 60; i++) assert.equal(busy.take(`k${i}`, START + 60_000).allowed, true)
    assert.equal(busy.size, 60)
  })

  test('takes idle keys back from many rows, a few at each refusal', () => {
    const budget = new KeyBudget(2000)
    const rows = Array.from({ length: 500 }, (_, id) => new Counters(record({ id }), budget))
    budget.divide(rows)
    for (const row of rows.slice(0, 10)) for (let i = 0; i < 200; i++) row.take(`k${i}`, START)
    const last = rows.at(-1) as Counters
    const takeAll = () => {
      for (let i = 0; i < 500; i++) last.take(`k${i}`, START + 60_000)
    }
    for (let round = 0; round < 10; round++) takeAll()
    assert.equal(last.size, 500)
  })

  test('is not made larger by keys that leave their own share', () => {
    const budget = new KeyBudget(100)
    const [quiet, flooded] = [
      new Counters(record({ id: 1 }), budget),
      new Counters(record({ id: 2 }), budget),
    ]
    budget.divide([quiet, flooded])
    for (let i = 0; i < 20; i++) quiet.take(`k${i}`, START)
    for (let i = 0; i < 40; i++) quiet.take('k', START + 60_000)
    assert.equal(quiet.size, 1)
    for (let i = 0; i < 200; i++) flooded.take(`k${i}`, START + 60_000)
    assert.equal(flooded.size, 75)
  })

  test('is divided anew when rows come and go, and nobody loses a key by it', () => {
    const budget = new KeyBudget(100)
    const row = new Counters(record(), budget)
    budget.divide([row])
    for (let i = 0; i < 200; i++) row.take(`k${i}`, START)
    assert.equal(row.size, 100)
    const other = new Counters(record({ id: 2 }), budget)
    budget.divide([row, other])
    for (let i = 0; i < 200; i++) other.take(`k${i}`, START)
    assert.deepEqual([row.size, other.size], [100, 25])
  })
})
