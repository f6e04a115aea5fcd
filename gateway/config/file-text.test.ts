import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkSize, utf8Text } from './file-text.ts'

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

test('a file that is larger than any file of configuration is refused', () => {
  checkSize(32 * 1024 * 1024)
  checkSize(1n)
  assert.throws(() => checkSize(32 * 1024 * 1024 + 1), /it has 33554433 bytes, more than 33554432/)
})
