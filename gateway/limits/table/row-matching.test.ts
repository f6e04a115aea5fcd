import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { LimitRow } from './limit-table.ts'
import { editedRecord, matchRows, recordOf } from './row-matching.ts'

function row(name: string, path: string, methods?: string[], windowMs = 60_000): LimitRow {
  return {
    name,
    path,
    methods: methods === undefined ? undefined : new Set(methods),
    limit: 5,
    window: `${windowMs / 1000}s`,
    windowMs,
    purpose: 'test',
    per: 'caller',
    mode: 'enforce',
    cost: 1,
    onStoreFailure: 'local',
  }
}

/** Names of the old rows that the new ones follow. */
function followed(olds: LimitRow[], news: LimitRow[]): (string | undefined)[] {
  const records = olds.map((old, i) => recordOf(old, i + 1))
  const found = matchRows(records, news)
  return news.map((each) => found.get(each)?.name)
}

describe('a row of a new table', () => {
  test('follows the old row with its path and methods, in whatever order they are written', () => {
    assert.deepEqual(followed([row('a', '/x', ['GET', 'PUT'])], [row('b', '/x', ['PUT', 'GET'])]), ['a'])
  })

  test('follows the old row of its name when none has its path and methods', () => {
    assert.deepEqual(followed([row('a', '/x')], [row('a', '/y')]), ['a'])
    assert.deepEqual(followed([row('a', '/x')], [row('a', '/x', ['GET'])]), ['a'])
  })

  test('follows its path before its name, and no old row is followed twice', () => {
    assert.deepEqual(followed([row('a', '/x'), row('b', '/y')], [row('b', '/x'), row('a', '/y')]), ['a', 'b'])
    assert.deepEqual(followed([row('a', '/x')], [row('a', '/y'), row('b', '/x')]), [undefined, 'a'])
    assert.deepEqual(followed([row('a', '/x'), row('b', '/y')], [row('b', '/x')]), ['a'])
  })

  test('follows the shortest old window of its path that is at least as long, else the longest; several may follow one', () => {
    const olds = [row('minute', '/x'), row('hour', '/x', undefined, 3_600_000)]
    const [second, hour, day] = [1000, 3_600_000, 86_400_000].map((ms) => row(`${ms}`, '/x', undefined, ms))
    assert.ok(second && hour && day)
    assert.deepEqual(followed(olds, [hour, second]), ['hour', 'minute'])
    assert.deepEqual(followed(olds, [day, second, hour]), ['hour', 'minute', 'hour'])
    assert.deepEqual(followed(olds, [day]), ['hour'])
    assert.deepEqual(followed([row('x', '/x')], [hour, row('other', '/x')]), ['x', 'x'])
  })

  test('follows a template that calls its parameters by other names', () => {
    assert.deepEqual(followed([row('a', '/x/{id}')], [row('b', '/x/{user}')]), ['a'])
  })

  test('follows nobody when it is new', () => {
    assert.deepEqual(followed([row('a', '/x')], [row('b', '/y')]), [undefined])
    assert.deepEqual(followed([row('a', '/x', ['GET'])], [row('b', '/x', ['POST'])]), [undefined])
  })
})

describe('the record of an edited row', () => {
  test('keeps its id, and forgets what the window before the edit had let go of', () => {
    const first = recordOf(row('a', '/x'), 7)
    const longer = editedRecord(first, row('b', '/x', undefined, 3_600_000), 1_000_000)
    assert.deepEqual(
      [longer.id, longer.name, longer.windowMs, longer.horizonMs],
      [7, 'b', 3_600_000, 940_000],
    )
    const shorter = editedRecord(longer, row('b', '/x', undefined, 1000), 1_000_001)
    assert.equal(shorter.horizonMs, 940_000)
    const again = editedRecord(shorter, row('b', '/x', undefined, 3_600_000), 1_000_002)
    assert.equal(again.horizonMs, 999_002)
  })

  test('forgets nothing while the window stays', () => {
    assert.equal(editedRecord(recordOf(row('a', '/x'), 7), row('a', '/y'), 1_000_000).horizonMs, null)
  })
})
