import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseCheckedJson } from './checked-json.ts'

function parsed(text: string) {
  return parseCheckedJson(Buffer.from(text))
}

test('every JSON text without a repeated key gives what JSON.parse gives', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 8 }), fc.constantFrom(0, 2, '\t'), (value, indent) => {
      const text = JSON.stringify(value, null, indent)
      assert.deepEqual(parsed(text), { value: JSON.parse(text) })
    }),
  )
})

test('no text is accepted that JSON.parse refuses', () => {
  const seed = '{"a":[1,-2.5e+3,"x\\u00e9\\"",true,null,{}],"b":{"a":[]}}'
  const letter = fc.constantFrom(...'{}[]",:\\/ue01.-+tn \n'.split(''))
  const edit = fc.record({ at: fc.nat(seed.length), remove: fc.nat(2), letter: fc.option(letter) })
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 3 }), (edits) => {
      let text = seed
      for (const { at, remove, letter } of edits)
        text = text.slice(0, at) + (letter ?? '') + text.slice(at + remove)
      const result = parsed(text)
      if ('value' in result) assert.deepEqual(result.value, JSON.parse(text))
    }),
    { numRuns: 2000 },
  )
})

test('a key that is written twice in one object is a fault, however it is spelled; in two objects it is none', () => {
  const twice = { fault: 'has a member twice in one object' }
  assert.deepEqual(parsed('{"a":1,"a":2}'), twice)
  assert.deepEqual(parsed('{"a":1,"b":{"c":[{"x":1 , "\\u0078" : 2}]}}'), twice)
  assert.ok('value' in parsed('{"a":{"a":1},"b":["a","a"],"c":"a"}'))
  assert.ok('value' in parsed('[{"a":1},{"a":1}]'))
})

test('a text that is nested too deep, or is not UTF-8, is a fault', () => {
  assert.match(JSON.stringify(parsed('['.repeat(500_000))), /deeper than 64 levels/)
  assert.ok('value' in parsed(`${'['.repeat(64)}${']'.repeat(64)}`))
  assert.deepEqual(parsed('"\\"[[[["'), { value: '"[[[[' })
  assert.deepEqual(parseCheckedJson(Buffer.from([0x22, 0xff, 0x22])), { fault: 'is not UTF-8' })
  assert.deepEqual(parsed('{"a":'), { fault: 'is not JSON' })
  assert.deepEqual(parsed('"abc\\'), { fault: 'is not JSON' })
})
