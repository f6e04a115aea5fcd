import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { HeadParser } from './head-parser.ts'

function parserOf(): HeadParser {
  const reader = {
    noStartLine: 'no start line',
    mayBegin: () => true,
    startLine: () => undefined,
    field: () => undefined,
  }
  return new HeadParser(reader, { maxBytes: 16 * 1024, maxFields: 1000 })
}

function read(parser: HeadParser, text: string) {
  parser.begin()
  assert.equal(parser.read(text), text.length)
  assert.equal(parser.whole, true)
  return parser.fields
}

const lines = (values: readonly string[]) => values.map((value, n) => `X-${n}: ${value}\r\n`).join('')
const head = (values: readonly string[]) => `start\r\n${lines(values)}\r\n`

describe('the heads of one connection', () => {
  it('share the fields that are alike, in their place, and no others', () => {
    const parser = parserOf()
    const first = read(parser, head(['a', 'b', 'c', 'd']))
    const second = read(parser, head(['a', 'other', 'c', 'd']))
    assert.deepEqual(
      second.map((field, n) => field === first[n]),
      [true, false, true, true],
    )
    assert.deepEqual(
      second.map(({ value }) => value),
      ['a', 'other', 'c', 'd'],
    )
    // One that is longer than the line before it, and one that is left out.
    assert.deepEqual(
      read(parser, head(['ab', 'other'])).map(({ value }) => value),
      ['ab', 'other'],
    )
  })

  it('leave 32 fields behind at most when the connection rests', () => {
    const parser = parserOf()
    const values = Array.from({ length: 100 }, (_, n) => `v${n}`)
    const first = read(parser, head(values))
    parser.rest()
    assert.deepEqual(parser.fields, [])
    const second = read(parser, head(values))
    assert.equal(second.filter((field, n) => field === first[n]).length, 32)
  })

  it('are read the same however they are split', () => {
    const text = head(['a', 'b'])
    for (let cut = 1; cut < text.length; cut++) {
      const parser = parserOf()
      read(parser, text)
      parser.begin()
      parser.read(text.slice(0, cut))
      parser.read(text.slice(cut))
      assert.deepEqual(
        parser.fields.map(({ value }) => value),
        ['a', 'b'],
      )
      assert.equal(parser.whole, true)
    }
  })
})
