import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseDictionary, parseItem, serializeDictionary } from './structured-field.ts'

test('a dictionary keeps the order and the type of its members, and is written canonically', () => {
  for (const [written, canonical] of [
    ['', ''],
    ['a=1', 'a=1'],
    ['  a=1,\t b , c;x;y=2  ', 'a=1, b, c;x;y=2'],
    ['a=?1, b=?0;q=?1', 'a, b=?0;q'],
    ['a=1.0, b=1.50, c=-0.500, d=0.0', 'a=1.0, b=1.5, c=-0.5, d=0.0'],
    ['a=007, b=-0', 'a=7, b=0'],
    ['a="x\\"y\\\\", b=*tok/en:1', 'a="x\\"y\\\\", b=*tok/en:1'],
    ['a=:aGVsbG8=:, b=::', 'a=:aGVsbG8=:, b=::'],
    ['a=(  "x"   y;p=1 );q=:AA==:', 'a=("x" y;p=1);q=:AA==:'],
    ['a=(), b=();created=1', 'a=(), b=();created=1'],
    ['a=1;  x=2;y', 'a=1;x=2;y'],
  ] as const) {
    const members = parseDictionary(written)
    assert.equal(members && serializeDictionary(members), canonical, written)
  }
})

test('what is no dictionary, or could be read as two, is undefined', () => {
  for (const written of [
    'a=1,',
    'a=1 b=2',
    ',a=1',
    'A=1',
    'a=1, a=2',
    'a;x=1;x=2',
    'a=(x y',
    'a=("x""y")',
    'a=(x,y)',
    'a="x',
    'a="x\\n"',
    'a="é"',
    'a=1.',
    'a=1.2345',
    'a=1234567890123456',
    'a=--1',
    'a=:aGVsbG8:',
    'a=:aGVsbG9=:',
    'a=:aGVs bG8=:',
    'a=?2',
    'a=%"x"',
    'a=@1659578233',
    'a = 1',
    'a=1 ;x',
    '\ta=1',
  ])
    assert.equal(parseDictionary(written), undefined, written)
})

test('an item has nothing after its parameters', () => {
  assert.equal(parseItem('"@query-param";name="Pet"')?.parameters.get('name')?.value, 'Pet')
  assert.equal(parseItem('"x" '), undefined)
  assert.equal(parseItem('("x")'), undefined)
})

test('canonical text is read and written unchanged', () => {
  const bare = fc.oneof(
    fc.integer({ min: -999_999_999_999_999, max: 999_999_999_999_999 }).map(String),
    fc.stringMatching(/^[ !#-[\]-~]{0,12}$/).map((text) => `"${text}"`),
    fc.stringMatching(/^[A-Za-z*][A-Za-z0-9:/!#]{0,8}$/),
    fc.uint8Array({ maxLength: 40 }).map((bytes) => `:${Buffer.from(bytes).toString('base64')}:`),
    fc.constant('?0'),
  )
  const key = fc.stringMatching(/^[a-z*][a-z0-9_.*-]{0,6}$/)
  const parameters = fc
    .uniqueArray(fc.tuple(key, fc.option(bare)), { maxLength: 3, selector: ([name]) => name })
    .map((list) => list.map(([name, value]) => (value === null ? `;${name}` : `;${name}=${value}`)).join(''))
  const item = fc.tuple(bare, parameters).map((parts) => parts.join(''))
  const inner = fc
    .tuple(fc.array(item, { maxLength: 4 }), parameters)
    .map(([all, after]) => `(${all.join(' ')})${after}`)
  const member = fc.tuple(key, fc.oneof(item, inner)).map(([name, value]) => `${name}=${value}`)
  fc.assert(
    fc.property(fc.uniqueArray(member, { maxLength: 5, selector: (one) => one.split('=')[0] }), (all) => {
      const written = all.join(', ')
      const members = parseDictionary(written)
      assert.equal(members && serializeDictionary(members), written)
    }),
    { numRuns: 300 },
  )
})
