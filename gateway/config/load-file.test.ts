import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { loadFile, unreadable } from './load-file.ts'

test('a file is given as its text and what was made of it', () => {
  const file = fileURLToPath(import.meta.url)
  const loaded = loadFile(file, (name, text) => ({ value: `${name} ${text.length}` }))
  assert.match(loaded.value?.text ?? '', /is given as its text/)
  assert.equal(loaded.value?.value, `${file} ${loaded.value?.text.length}`)
})

test('a file that does not parse gives its faults', () => {
  const faults = [{ file: 'x', path: '$', reason: 'is bad' }]
  assert.deepEqual(
    loadFile(
      'x',
      () => ({ faults }),
      () => '',
    ),
    { faults },
  )
})

test('a file that cannot be read gives that as its fault, whatever was thrown', () => {
  const loaded = loadFile('/nowhere/x', () => ({ value: 1 }))
  assert.match(loaded.faults?.[0]?.reason ?? '', /^cannot be read: ENOENT/)
  assert.equal(unreadable('x', 'a string').reason, 'cannot be read: a string')
})
