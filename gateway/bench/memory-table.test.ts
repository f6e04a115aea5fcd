import assert from 'node:assert/strict'
import { it } from 'node:test'
import { renderMemory } from './memory-table.ts'

it('the table of memory says what each costs, and which bound was broken', () => {
  const row = { what: 'tokens', offered: 20, held: 10, heapBytes: 12_345_678, residentBytes: 20_000_000 }
  const [kept, broken] = renderMemory([
    { ...row, bound: 'MAX', broken: false },
    { ...row, bound: 'MAX', broken: true },
  ])
    .split('\n')
    .slice(2)
  assert.equal(kept, '| tokens | 20 | 10 | 1,234,568 B | 12.3 MB | 20.0 MB | MAX |')
  assert.ok(broken?.endsWith('| **BROKEN**: MAX |'))
})
