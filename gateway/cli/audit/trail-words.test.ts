import assert from 'node:assert/strict'
import { test } from 'node:test'
import { command as report } from './report.ts'
import { whenOf } from './trail-words.ts'

test('a day that its month does not have is a fault, and not a day of the next month', async () => {
  for (const text of [
    '2026-02-30',
    '2026-04-31T12:00Z',
    '2025-02-29',
    '2026-13-01',
    '2026-02-30T23:00:00+01:00',
  ]) {
    assert.throws(() => whenOf({ since: text }, 'since'), /^Error: --since must be a day/, text)
  }
  assert.equal(whenOf({ since: '2024-02-29' }, 'since'), Date.UTC(2024, 1, 29))
  assert.equal(whenOf({ since: '2026-04-30T23:30:00-01:00' }, 'since'), Date.UTC(2026, 4, 1, 0, 30))
  for (const day of ['2026-02-30', '2026-04-31'])
    await assert.rejects(
      async () => report.run({ words: [], flags: { day } }),
      /^Error: --day must be a day/,
      day,
    )
})
