import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { HeadParser } from './head-parser.ts'

/** A parser, and a reader that knows which fields it was told since it last had to forget. */
function parserWithReader(maxBytes = 16 * 1024) {
  const reader = {
    told: [] as string[],
    noStartLine: 'no start line',
    mayBegin: () => true,
    startLine: () => undefined,
    forgetFields() {
      this.told = []
    },
    field({ name }: { readonly name: string }) {
      this.told.push(name)
      return name === 'bad' ? 'a bad field' : undefined
    },
  }
  return { reader, parser: new HeadParser(reader, { maxBytes, maxFields: 1000 }) }
}

function parserOf(): HeadParser {
  return parserWithReader().parser
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
  it('share equal fields at equal places, and no others', () => {
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
    // One line is longer than before, and others are left out.
    assert.deepEqual(
      read(parser, head(['ab', 'other'])).map(({ value }) => value),
      ['ab', 'other'],
    )
  })

  it('have one list only if all their fields are the same', () => {
    const parser = parserOf()
    const first = read(parser, head(['a', 'b', 'c']))
    assert.equal(read(parser, `another start\r\n${lines(['a', 'b', 'c'])}\r\n`), first)
    for (const others of [
      ['a', 'b'],
      ['a', 'b', 'c', 'd'],
      ['a', 'b', 'C'],
      ['a', 'b', 'c', ''],
    ]) {
      const list = read(parser, head(others))
      assert.notEqual(list, first)
      assert.deepEqual(
        list.map(({ value }) => value),
        others,
      )
      assert.deepEqual(
        read(parser, head(['a', 'b', 'c'])).map(({ value }) => value),
        ['a', 'b', 'c'],
      )
    }
  })

  it('without fields have none, whatever came before, and the next head tells the reader all its fields', () => {
    const { parser, reader } = parserWithReader()
    for (const values of [['a'], [], ['a'], [], ['a'], ['a'], []]) {
      assert.deepEqual(
        read(parser, head(values)).map(({ value }) => value),
        values,
      )
      assert.equal(reader.told.length, values.length)
    }
  })

  it('are bounded by their bytes, also when only the first line differs', () => {
    const { parser } = parserWithReader(100)
    const rest = `${lines(['v'.repeat(60)])}\r\n`
    read(parser, `start\r\n${rest}`)
    parser.begin()
    parser.read(`${'start'.repeat(8)}\r\n${rest}`)
    assert.deepEqual([parser.tooLarge, parser.fault], [true, 'a head beyond 100 bytes'])
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

  it('that came in pieces are not mistaken for a head with only their last lines', () => {
    const text = head(['a', 'b'])
    for (let one = 1; one < text.length; one++) {
      for (let other = one; other < text.length; other++) {
        const parser = parserOf()
        parser.begin()
        for (const piece of [text.slice(0, one), text.slice(one, other), text.slice(other)])
          parser.read(piece)
        const [last, ...more] = read(parser, 'start\r\nX-1: b\r\n\r\n')
        assert.deepEqual([last?.line, more.length], ['X-1: b\r\n', 0])
      }
    }
  })

  it('are read by a used parser as by a new one, and its reader learns the same', () => {
    const field = fc.constantFrom(
      'A: 1\r\n',
      'A: 2\r\n',
      'B: 1\r\n',
      'A: 12\r\n',
      'bad: 1\r\n',
      'no field\r\n',
      '\r\n',
    )
    const text = fc.array(field, { maxLength: 4 }).map((all) => `start\r\n${all.join('')}\r\nA: 1`)
    const cuts = fc.array(fc.nat(40), { maxLength: 2 })
    fc.assert(
      fc.property(fc.array(fc.tuple(text, cuts), { minLength: 1, maxLength: 6 }), (heads) => {
        let used = parserWithReader()
        for (const [one, at] of heads) {
          const fresh = parserWithReader()
          const outcomes = [used, fresh].map((both) => outcomeOf(both, one, at))
          assert.deepEqual(outcomes[0], outcomes[1])
          // The connection of a faulty head is closed.
          if (used.parser.fault !== undefined) used = parserWithReader()
        }
      }),
    )
  })
})

function outcomeOf(
  { parser, reader }: ReturnType<typeof parserWithReader>,
  text: string,
  cuts: readonly number[],
) {
  parser.begin()
  const ends = [...cuts.map((cut) => Math.min(cut, text.length)), text.length].sort((a, b) => a - b)
  let consumed = 0
  for (const [i, end] of ends.entries()) {
    if (parser.whole || parser.fault !== undefined) break
    consumed += parser.read(text.slice(ends[i - 1] ?? 0, end))
  }
  const fields = parser.fields.map(({ name, value, line }) => [name, value, line])
  return { consumed, fields, whole: parser.whole, fault: parser.fault, told: parser.fault ?? reader.told }
}
