import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { loadFile, readLenient, readText, unreadable } from './load-file.ts'

test('a file is given as its text and what was made of it', () => {
  const file = fileURLToPath(import.meta.url)
  const loaded = loadFile(file, (name, text) => ({ value: `${name} ${text.length}` }))
  assert.match(loaded.value?.text ?? '', /is given as its text/)
  assert.equal(loaded.value?.value, `${file} ${loaded.value?.text.length}`)
})

test('a file that does not parse gives its faults', () => {
  const faults = [{ file: 'x', path: '$', reason: 'is bad' }]
  assert.deepEqual(
    loadFile('x', () => ({ faults }), { readFile: () => '' }),
    { faults },
  )
})

test('a file that is no UTF-8 is a fault that names the byte, unless its encoding does not matter', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'load-file-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'limits.json')
  writeFileSync(file, Buffer.from('{\n"a": "caf\xe9"}', 'latin1'))
  const { faults } = loadFile(file, (_, text) => ({ value: text }))
  assert.deepEqual(faults, [
    { file, path: '$', reason: 'cannot be read: byte 11 (0xE9, in line 2) is not UTF-8' },
  ])
  assert.equal(
    loadFile(file, (_, text) => ({ value: text }), { readFile: readLenient }).value?.value,
    '{\n"a": "caf\uFFFD"}',
  )
})

test('a pipe, a device and a directory are not waited for', { timeout: 10_000 }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'load-file-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  for (const file of [pipe, '/dev/zero', folder])
    for (const read of [readText, readLenient]) {
      const { faults } = loadFile(file, () => ({ value: 1 }), { readFile: read })
      assert.equal(faults?.[0]?.reason, 'cannot be read: it is not a regular file')
    }
})

test('a file that cannot be read gives that as its fault, whatever was thrown', () => {
  const loaded = loadFile('/nowhere/x', () => ({ value: 1 }))
  assert.match(loaded.faults?.[0]?.reason ?? '', /^cannot be read: ENOENT/)
  assert.equal(unreadable('x', 'a string').reason, 'cannot be read: a string')
})
