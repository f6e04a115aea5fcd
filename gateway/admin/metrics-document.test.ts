import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'
import { newStoreCounts } from '../store/store-counts.ts'
import { countEverything } from './count-everything.test-support.ts'
import { createMetrics } from './metrics.ts'

const document = readFileSync(new URL('../../config/METRICS.md', import.meta.url), 'utf8')
const rows = document.split('\n').filter((line) => line.startsWith('| `'))

/** A cell of a row; cells are counted from 1, and have no bar in them. */
function cell(row: string, at: number): string {
  return (row.split('|')[at] ?? '').trim()
}

function namesIn(text: string): string[] {
  return [...text.matchAll(/`(\w+)`/g)].map((match) => match[1] as string)
}

it('every metric is in METRICS.md with its type, labels and help text, and nothing else is', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  countEverything(metrics)
  metrics.sharedStore({ counts: newStoreCounts(), isAway: false, unsentSessions: 0 })
  const documented = new Map(
    rows.filter((row) => /^\w+_/.test(cell(row, 1).slice(1))).map((row) => [namesIn(row)[0], row]),
  )
  for (const { name, type, help, values } of await metrics.snapshot()) {
    const row = documented.get(name)
    const labels = [...new Set(values.flatMap((sample) => Object.keys(sample.labels)))].filter(
      (label) => label !== 'le',
    )
    // What was not observed yet has no samples.
    const named = values.length > 0 ? labels : namesIn(cell(row ?? '', 3))
    const list = named.map((label) => `\`${label}\` `).join('')
    assert.equal(row, `| \`${name}\` | ${type} | ${list}| ${help} |`, 'as it should be in METRICS.md')
    documented.delete(name)
  }
  assert.deepEqual([...documented.keys()], [], 'metrics that do not exist')
})

it('every label has its values in METRICS.md', () => {
  const table = rows.filter((row) => !/^\w+_/.test(cell(row, 1).slice(1)))
  const explained = new Set(
    table.filter((row) => row.split('|').length === 4).flatMap((row) => namesIn(cell(row, 1))),
  )
  const used = new Set(
    rows.filter((row) => row.split('|').length === 6).flatMap((row) => namesIn(cell(row, 3))),
  )
  assert.ok(used.size > 15)
  assert.deepEqual(
    [...used].filter((label) => !explained.has(label)),
    [],
  )
})
