import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { REFUSALS } from './refusals.ts'

const DOCUMENT = readFileSync(new URL('REFUSALS.md', import.meta.url), 'utf8')

test('REFUSALS.md lists every refusal with its status, its source and its sentence', () => {
  const rows = Object.entries(REFUSALS).map(
    ([code, { status, source, detail }]) => `| \`${code}\` | ${status} | ${source} | ${detail} |`,
  )
  const table = DOCUMENT.slice(DOCUMENT.indexOf('| code | status |')).trim().split('\n').slice(2)
  assert.deepEqual(table, rows, 'refusals.ts was changed: npm run schemas')
})
