import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeFault, showFault } from '../faults.ts'
import { JsonFile } from './json-file.ts'
import { schemaCheck } from './schema-check.ts'

const check = schemaCheck({
  type: 'object',
  properties: {
    port: { type: 'integer', default: 80 },
    portal: { type: 'string' },
    rows: {
      type: 'array',
      items: { type: 'object', required: ['path'], properties: { path: { type: 'string' } } },
    },
  },
})

function read(text: string): JsonFile<{ port: number }> {
  return new JsonFile('some.json', text, check)
}

test('a good file has a value with defaults and no faults', () => {
  const file = read('{"portal": "x"}')
  assert.deepEqual(file.value, { portal: 'x', port: 80 })
  assert.deepEqual(file.faults(), [])
})

test('a byte order mark at the beginning is ignored, elsewhere it is a fault', () => {
  assert.deepEqual(read('\uFEFF{"port": 1}').value, { port: 1 })
  assert.equal(read('{\uFEFF}').value, undefined)
})

test('a text that is not JSON has no value and one fault, with line and column', () => {
  const file = read('{\n  "port": 1,\n}')
  assert.equal(file.value, undefined)
  assert.equal(file.sound('$.port'), false)
  assert.equal(file.wrote('$.port'), false)
  assert.deepEqual(file.faults(), [
    {
      file: 'some.json',
      path: 'line 3 column 1',
      reason: 'a comma must not stand before "}"',
      at: { line: 3, column: 1, excerpt: { text: '}', caret: 0 } },
    },
  ])
})

test('a text that is longer than any file of configuration is not read', () => {
  const file = read(`{"portal": "${'x'.repeat(4 * 1024 * 1024)}"}`)
  assert.equal(file.value, undefined)
  assert.deepEqual(
    file.faults().map(({ path, reason }) => `${path} ${reason}`),
    ['$ must have at most 4194304 characters, but has 4194318'],
  )
})

test('a list that is far too long is not looked at row by row', () => {
  const bounded = schemaCheck({
    type: 'object',
    properties: { rows: { type: 'array', maxItems: 3, items: { type: 'object' } } },
  })
  const file = new JsonFile('some.json', '{"rows": [1, 2, 3, 4]}', bounded)
  assert.equal(file.value, undefined)
  assert.deepEqual(
    file.faults().map(({ path, reason }) => `${path} ${reason}`),
    ['$.rows must have at most 3 entries, but has 4'],
  )
})

test('a key that is as long as the file is shown in part', () => {
  const file = read('{}')
  file.refuse({ path: `$.${'x'.repeat(1_000_000)}`, reason: 'is bad' })
  assert.equal(file.faults()[0]?.path.length, 201)
})

test('of very many faults the first hundred are told, and how many more there are', () => {
  const file = read(`{"rows": [${Array(250).fill('{}').join(',\n')}]}`)
  const faults = file.faults()
  assert.equal(faults.length, 101)
  assert.equal(faults[99]?.path, '$.rows[99].path')
  assert.deepEqual(faults[100], { file: 'some.json', path: '$', reason: 'has 150 more faults' })
})

test('the number of further faults includes faults that were only counted', () => {
  const file = read(`{"rows": [${Array(20_000).fill('{}').join(',\n')}]}`)
  assert.ok(file.value === undefined)
  const faults = file.faults()
  assert.equal(faults.length, 101)
  assert.deepEqual(faults[100], { file: 'some.json', path: '$', reason: 'has 19,900 more faults' })
})

test('a text that is JSON but no object has no value', () => {
  for (const text of ['null', '5', '"x"']) {
    const file = read(text)
    assert.equal(file.value, undefined)
    assert.equal(file.faults()[0]?.path, '$')
  }
})

test('a key that is written twice is a fault beside those of the schema', () => {
  assert.deepEqual(read('{\n"port": 1,\n"port": "x"}').faults().map(describeFault), [
    'some.json: $.port: is written twice, on line 2 and again (line 3)',
    'some.json: $.port: must be a whole number, but is "x" (line 3)',
  ])
})

test('faults come in the order of the file, whoever found them', () => {
  const file = read('{\n"rows": [\n{},\n{"path": 1}],\n"port": 1}')
  file.refuse({ path: '$.port', reason: 'is taken' })
  file.refuse({ path: '$.rows', reason: 'are too few' })
  assert.deepEqual(file.faults().map(describeFault), [
    'some.json: $.rows: are too few (line 2)',
    'some.json: $.rows[0].path: is missing (line 3)',
    'some.json: $.rows[1].path: must be text, but is 1 (line 4)',
    'some.json: $.port: is taken (line 5)',
  ])
})

test('a part is sound unless a fault is in it, above it or below it', () => {
  const file = read('{"rows": [{"path": 1}, {"path": "x"}], "port": "x", "portal": "y"}')
  assert.equal(file.sound('$.rows[0].path'), false)
  assert.equal(file.sound('$.rows[0]'), false)
  assert.equal(file.sound('$'), false)
  assert.equal(file.sound('$.port.below'), false)
  assert.equal(file.sound('$.rows[1]'), true)
  assert.equal(file.sound('$.portal'), true)
})

test('what the operator wrote is told apart from a default', () => {
  const file = read('{"portal": "x"}')
  assert.equal(file.wrote('$.portal'), true)
  assert.equal(file.wrote('$.port'), false)
})

test('a fault is shown with its place and the line, a caret below the key', () => {
  const file = read('{\n\t"rows": [], "port": "x"\n}')
  assert.equal(
    file.faults().map(showFault).join(),
    [
      'some.json:2:14: $.port: must be a whole number, but is "x"',
      '  2 | \t"rows": [], "port": "x"',
      '    | \t            ^',
    ].join('\n'),
  )
  const [fault] = read(`{"rows": [], ${' '.repeat(1000)}"port": "${'x'.repeat(1000)}"}`).faults()
  const { text, caret } = fault?.at?.excerpt ?? assert.fail()
  assert.ok(text.length < 150 && text.slice(caret).startsWith('"port"') && /^….*…$/.test(text), text)
})

test('a file of blank lines is read to its end', () => {
  assert.match(read('\n'.repeat(1_000_000)).faults()[0]?.path ?? '', /^line \d+ column 1$/)
})

test('no line is shown of a file that is no JSON object or may hold a secret', () => {
  const excerpt = (text: string, secret = false) =>
    new JsonFile('some.json', text, check, { secret }).faults()[0]?.at?.excerpt
  assert.equal(excerpt('-----BEGIN PRIVATE KEY-----'), undefined)
  assert.equal(excerpt('{"port": "x"}', true), undefined)
  assert.equal(
    excerpt('{"port": "whsec_c2VjcmV0", "portal": "http://a:b@host/"}')?.text,
    '{"port": "whsec_********", "portal": "http://***@host/"}',
  )
})
