import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type JsonScan, type JsonSyntaxFault, scanJson } from './json-scan.ts'
import { LineIndex } from './line-index.ts'

function fault(text: string): JsonSyntaxFault {
  const scan = scanJson(text)
  assert.ok('reason' in scan, `${text} was accepted`)
  return scan
}

function good(text: string): JsonScan {
  const scan = scanJson(text)
  assert.ok('offsets' in scan, JSON.stringify(scan))
  return scan
}

function parses(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

test('every value that JSON can hold is accepted, however it is spaced', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.constantFrom(0, 2, '\t'), (value, indent) => {
      assert.ok('offsets' in scanJson(JSON.stringify(value, null, indent)))
    }),
  )
})

test('a text with one letter changed is accepted exactly when JSON.parse accepts it', () => {
  const seed = '{"a":[1,-2.5e+3,0,"x\\u00e9\\n",true,false,null,{}],"b":{"c":[]}}'
  const letter = fc.constantFrom(...'{}[]",:\\/ue0123.-+tfn \n\t\'\u0001é'.split(''))
  const edit = fc.record({ at: fc.nat(seed.length), remove: fc.nat(2), letter: fc.option(letter) })
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 3 }), (edits) => {
      let text = seed
      for (const { at, remove, letter } of edits)
        text = text.slice(0, at) + (letter ?? '') + text.slice(at + remove)
      assert.equal('offsets' in scanJson(text), parses(text), text)
    }),
    { numRuns: 3000 },
  )
})

test('the place of each key and element is kept', () => {
  const text = '{\n  "a": [\n    1,\n    {"b": 2}\n  ]\r\n, "c": 3}'
  const index = new LineIndex(text)
  assert.deepEqual(
    [...good(text).offsets].map(([path, offset]) => {
      const { line, column } = index.placeOf(offset)
      return `${path} ${line}:${column}`
    }),
    ['$ 1:1', '$.a 2:3', '$.a[0] 3:5', '$.a[1] 4:5', '$.a[1].b 4:6', '$.c 6:3'],
  )
})

test('a key that is written twice in one object is named with the place of the first, escaped or not', () => {
  const { repeated } = good('{\n"a": 1,\n"b": {"a": 2},\n"\\u0061": 3\n}')
  assert.deepEqual(repeated, [{ path: '$.a', first: 2 }])
})

test('of a key that is written twice only the key itself is named, not the keys below it', () => {
  const { repeated } = good(
    '{"a": {"b": 1}, "a": {"b": [{"c": 2}]}, "ab": 1, "a": {"b": [{"c": 2}]}, "ab": 2}',
  )
  assert.deepEqual(repeated, [
    { path: '$.a', first: 1 },
    { path: '$.a', first: 16 },
    { path: '$.ab', first: 40 },
  ])
})

test('the same key in two objects is no repetition', () => {
  assert.deepEqual(good('[{"a":1},{"a":2}]').repeated, [])
})

test('a syntax fault is named by line and column, from 1, and by what was expected', () => {
  const cases: [text: string, line: number, column: number, reason: string][] = [
    ['', 1, 1, 'expected a value, but the file ends here'],
    ['\n\n [x]', 3, 3, 'unexpected "x"; keys and texts stand between double quotes in JSON'],
    ['{\n  "a": 1\n  "b": 2\n}', 3, 3, 'expected ",", but found "\\"b\\""'],
    ['{"a": 1', 1, 8, 'expected "}", but the file ends here'],
    ['{"a": 1,\n}', 2, 1, 'a comma must not stand before "}"'],
    ['[1,]', 1, 4, 'a comma must not stand before "]"'],
    ['{a: 1}', 1, 2, 'unexpected "a"; keys and texts stand between double quotes in JSON'],
    ["{'a': 1}", 1, 2, 'unexpected "\'a\'"; keys and texts stand between double quotes in JSON'],
    ['{1: 1}', 1, 2, 'expected a key between double quotes, but found "1"'],
    ['// note\n{}', 1, 1, 'comments are not allowed in JSON'],
    ['{"a" 1}', 1, 6, 'expected ":" after the key, but found "1"'],
    ['{"a": }', 1, 7, 'expected a value, but found "}"'],
    ['[1.]', 1, 2, 'the digits of a number are missing'],
    ['{"a": "x\n}', 1, 7, 'the closing quote of a text is missing in its line'],
    ['{"a": "x', 1, 7, 'the closing quote of a text is missing in its line'],
    ['["\u0001"]', 1, 2, 'a control character stands in a text'],
    ['["C:\\data"]', 1, 2, '"\\" begins no known escape in a text; a backslash itself is written "\\\\"'],
    ['["\\u12"]', 1, 2, '"\\u" comes without four hexadecimal digits in a text'],
    ['{} {}', 1, 4, 'nothing more may follow here, but found "{"'],
    ['[😀]', 1, 2, 'unexpected "😀"; keys and texts stand between double quotes in JSON'],
    ['[xxxxxxxx]', 1, 2, 'unexpected word; keys and texts stand between double quotes in JSON'],
    ['["a" "secret"]', 1, 6, 'expected ","'],
  ]
  for (const [text, line, column, reason] of cases) {
    const { offset, reason: found } = fault(text)
    assert.deepEqual(
      { ...new LineIndex(text).placeOf(offset), reason: found },
      { line, column, reason },
      text,
    )
  }
})

test('a text nested deeper than 64 levels is refused instead of exhausting the stack', () => {
  assert.match(fault('['.repeat(100_000)).reason, /deeper than 64 levels/)
  assert.match(fault('['.repeat(65) + ']'.repeat(65)).reason, /deeper than 64 levels/)
  good('['.repeat(64) + ']'.repeat(64))
})

test('a long file of one line is scanned in time that grows no faster than the file, and its values are bounded', () => {
  const text = `[${'0,'.repeat(200_000)}0]${' '.repeat(2_000_000)}`
  const before = process.cpuUsage()
  const scan = scanJson(text)
  assert.ok('offsets' in scan && scan.offsets.size === 200_002)
  // To look for the end of the line at each value would take more than half a minute.
  assert.ok(process.cpuUsage(before).user < 15_000_000)
  assert.deepEqual(scanJson(`[${'0,\n'.repeat(300_000)}0]`), {
    offset: 1 + 3 * 249_999,
    reason: 'there must not be more than 250000 values in a file',
  })
})
