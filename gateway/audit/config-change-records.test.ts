import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { configChangeRecords } from './config-change-records.ts'
import { LEAF_MAX_BYTES } from './seals/hashes.ts'

const timestamp = '2026-01-02T03:04:05.678Z'
const file = 'config/x.json'
const writer = { owner: { uid: 1000, name: 'ops' }, modified: '2026-01-02T03:04:05.000Z' }

/** The parsed lines, each short enough and whole. */
function parsed(lines: readonly string[]) {
  for (const line of lines) {
    assert.ok(Buffer.byteLength(line) <= LEAF_MAX_BYTES)
    assert.equal(line.indexOf('\n'), line.length - 1)
  }
  return lines.map((line) => JSON.parse(line))
}

test('CONFIG_CHANGE has the configuration before and after, and who wrote the file', () => {
  const before = [{ id: 'a', purpose: 'two\nlines' }]
  const [record, ...more] = parsed(configChangeRecords({ timestamp, file, writer, before, after: [] }))
  assert.deepEqual(Object.keys(record), ['type', 'timestamp', 'file', 'owner', 'modified', 'before', 'after'])
  assert.deepEqual([record.owner, record.modified], [writer.owner, writer.modified])
  assert.deepEqual([record.before, record.after, more], [before, [], []])
})

test('a table that is too long for one line is in several, whole and in order', () => {
  const rows = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ path: `/é/${index}`, purpose: 'p'.repeat(index % 900) }))
  const [before, after] = [rows(300), rows(700)]
  const records = parsed(configChangeRecords({ timestamp, file, writer, before, after }))
  assert.ok(records.length > 3)
  assert.deepEqual(
    records.map(({ part, parts }) => [part, parts]),
    records.map((_, i) => [i + 1, records.length]),
  )
  assert.deepEqual(
    records.flatMap((record) => record.before),
    before,
  )
  assert.deepEqual(
    records.flatMap((record) => record.after),
    after,
  )
})

test('settings that are too long for one line are divided by key and list', () => {
  const routes = Array.from({ length: 3000 }, (_, index) => ({ path: `/${index}`, auth: ['none'] }))
  const records = parsed(
    configChangeRecords({ timestamp, file, before: [{ via: true }], after: [{ routes, via: false }] }),
  )
  const after = records.flatMap((record) => record.after)
  assert.deepEqual(
    after.flatMap((row) => row.routes ?? []),
    routes,
  )
  assert.deepEqual(after.at(-1), { via: false })
})

test('one value that no line can hold is replaced by its length and hash', () => {
  const row = { motto: 'm'.repeat(70_000) }
  const json = JSON.stringify(row)
  const records = parsed(configChangeRecords({ timestamp, file, before: [], after: [{ id: 1, ...row }] }))
  assert.deepEqual(
    records.flatMap((record) => record.after),
    [{ id: 1 }, { omitted: { bytes: json.length, sha256: createHash('sha256').update(json).digest('hex') } }],
  )
})

test('no table with about the length of the longest line makes a line that is too long', () => {
  for (let chars = 65_200; chars < 65_700; chars += 7) {
    const after = [{ a: 'x'.repeat(100) }, { b: 'y'.repeat(chars - 100) }]
    const records = parsed(configChangeRecords({ timestamp, file, writer, before: [], after }))
    assert.equal(records.length <= 2, true)
  }
})
