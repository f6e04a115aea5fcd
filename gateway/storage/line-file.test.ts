import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { discard, headerLine, NewerFormatError, readLines, removeFile, replaceFile } from './line-file.ts'

const FORMAT = { name: 'revocations', version: 2 }
const home = mkdtempSync(join(tmpdir(), 'line-file-'))
process.on('exit', () => rmSync(home, { recursive: true }))
const file = join(home, 'lines.ndjson')

function read(text: string) {
  writeFileSync(file, text)
  return readLines(file, FORMAT)
}

describe('a file of lines', () => {
  it('is read without its header, if its version is not above the one that is known', () => {
    const expected = { lines: ['a', '', 'b'], firstLine: 2, isTorn: false }
    assert.deepEqual(read(`${headerLine(FORMAT)}a\n\nb\n`), expected)
    assert.deepEqual(read(`${headerLine({ ...FORMAT, version: 1 })}a\n\nb\n`), expected)
  })

  it('of an old gateway has no header and is read too', () => {
    assert.deepEqual(read('a\nb\n'), { lines: ['a', 'b'], firstLine: 1, isTorn: false })
    assert.deepEqual(read(''), { lines: [], firstLine: 1, isTorn: false })
  })

  it('that a crash has torn keeps its last part, and a torn header is a line like any other', () => {
    assert.deepEqual(read(`${headerLine(FORMAT)}a\nb`), { lines: ['a', 'b'], firstLine: 2, isTorn: true })
    assert.deepEqual(read('{"format":"revo'), { lines: ['{"format":"revo'], firstLine: 1, isTorn: true })
  })

  it('of a newer gateway is refused by name', () => {
    for (const version of ['3', '"2b"', 'null']) {
      assert.throws(
        () => read(`{"format":"revocations","version":${version}}\n`),
        (error) =>
          error instanceof NewerFormatError && error.message.startsWith(`${file} was written by a newer`),
      )
    }
    assert.throws(
      () => read('{"format":"revocations","version":3}\n'),
      /its format is revocations 3, .* up to 2$/,
    )
  })

  it('is replaced whole or not at all, and nothing is left of a failed attempt', () => {
    replaceFile(file, ['a\n', 'b\n'])
    assert.equal(readFileSync(file, 'utf8'), 'a\nb\n')
    assert.throws(() =>
      replaceFile(
        file,
        (function* () {
          yield 'c\n'
          throw new Error('no more')
        })(),
      ),
    )
    assert.equal(readFileSync(file, 'utf8'), 'a\nb\n')
    assert.deepEqual(readdirSync(home), ['lines.ndjson'])
    mkdirSync(`${file}.tmp`)
    assert.throws(() => replaceFile(file, ['c\n']), /EISDIR/)
    assert.equal(readFileSync(file, 'utf8'), 'a\nb\n')
  })
})

describe('removing a file', {
  skip: process.platform !== 'linux' && 'needs a file that nobody may remove',
}, () => {
  const KEPT = '/proc/version'

  it('is no error when the file is missing, and fails with the error of the system when the file stays', () => {
    removeFile(join(home, 'missing'))
    assert.throws(() => removeFile(KEPT), { message: /^E[A-Z]+: [a-z ]+, unlink '\/proc\/version'$/ })
  })

  it('after a fault throws nothing that would hide that fault', () => {
    discard(KEPT)
  })
})
