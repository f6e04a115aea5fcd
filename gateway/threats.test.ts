import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const HERE = fileURLToPath(new URL('.', import.meta.url))

/** The last cell of each row of THREATS.md: names of test files without their ending. */
function testsNamed(): string[] {
  const rows = readFileSync(`${HERE}THREATS.md`, 'utf8').split('\n')
  return rows
    .filter((row) => row.startsWith('| ') && !row.startsWith('| ---') && !row.endsWith('| test |'))
    .flatMap((row) => (row.split('|').at(-2) ?? '').split(','))
    .map((name) => name.trim())
}

test('every test that THREATS.md names exists', () => {
  const names = testsNamed()
  assert.ok(names.length > 40)
  const missing = names.filter((name) => {
    const file = name.startsWith('backend/') ? `../${name}` : name
    return !existsSync(`${HERE}${file}.test.ts`)
  })
  assert.deepEqual(missing, [])
})
