import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { checkSize, loadFile, readLenient, readText, unreadable, utf8Text } from './load-file.ts'

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
  const folder = temporaryDirectory(t)
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
  const folder = temporaryDirectory(t)
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  for (const file of [pipe, '/dev/zero', folder])
    for (const read of [readText, readLenient]) {
      const { faults } = loadFile(file, () => ({ value: 1 }), { readFile: read })
      assert.equal(faults?.[0]?.reason, 'cannot be read: it is not a regular file')
    }
})

test('a file that cannot be read is a fault, whatever was thrown', () => {
  const loaded = loadFile('/nowhere/x', () => ({ value: 1 }))
  assert.match(loaded.faults?.[0]?.reason ?? '', /^cannot be read: ENOENT/)
  assert.equal(unreadable('x', 'a string').reason, 'cannot be read: a string')
})

test('UTF-8 is given as it is written, a byte order mark included', () => {
  for (const text of ['', 'plain', 'Zürich €  😀', '\uFEFF{}'])
    assert.equal(utf8Text(Buffer.from(text)), text)
})

test('what is no UTF-8 is refused with the offset of its first byte, counted from 0, and its line', () => {
  const cases: [bytes: number[], offset: number, octet: string, line: number][] = [
    [[0xe9], 0, 'E9', 1],
    [[0x61, 0x0a, 0xe9, 0x22], 2, 'E9', 2],
    // The character before is whole, and the lone continuation byte is what is wrong.
    [[0xc3, 0xa9, 0x0a, 0x0a, 0x80], 4, '80', 3],
    // The beginning of a character, and the end of the file.
    [[0x61, 0xe2, 0x82], 1, 'E2', 1],
    // A part of U+FFFD, after a whole one.
    [[0xef, 0xbf, 0xbd, 0xef, 0xbf], 3, 'EF', 1],
    // A surrogate, an overlong slash, beyond Unicode.
    [[0x61, 0xed, 0xa0, 0x80], 1, 'ED', 1],
    [[0xc0, 0xaf], 0, 'C0', 1],
    [[0x61, 0x62, 0xf5, 0x80, 0x80, 0x80], 2, 'F5', 1],
  ]
  for (const [bytes, offset, octet, line] of cases) {
    assert.throws(() => utf8Text(Buffer.from(bytes)), {
      message: `byte ${offset} (0x${octet}, in line ${line}) is not UTF-8`,
    })
  }
  const long = Buffer.concat([Buffer.alloc(100_000, 'é'), Buffer.from([0xff]), Buffer.alloc(1000, 0xff)])
  assert.throws(() => utf8Text(long), /^Error: byte 100000 \(0xFF/)
})

test('a file of more than 32 MiB is refused', () => {
  checkSize(32 * 1024 * 1024)
  checkSize(1n)
  assert.throws(() => checkSize(32 * 1024 * 1024 + 1), /it has 33554433 bytes, more than 33554432/)
})
