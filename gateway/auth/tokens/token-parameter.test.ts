import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { hasTokenParameter } from './authorization.ts'

test('a token in the query is seen in whatever way its name is encoded', () => {
  const spelt = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 12, maxLength: 12 }).map((ways) =>
    [...'access_token']
      .map((letter, i) => {
        const octet = `%${letter.charCodeAt(0).toString(16)}`
        return [letter, letter.toUpperCase(), octet, octet.toUpperCase()][ways[i] as number]
      })
      .join(''),
  )
  fc.assert(
    fc.property(
      spelt,
      fc.constantFrom('', 'a=b&', 'a&', 'a=%zz;', '&'),
      fc.constantFrom('', '=', '=x', '&b', ';b=c'),
      (name, before, after) => {
        assert.equal(hasTokenParameter(`?${before}${name}${after}`), true)
      },
    ),
  )
})

test('a parameter that only looks like a token parameter is none', () => {
  for (const query of [
    '?',
    '?a=access_token',
    '?a=%26access_token%3Dx',
    '?next=%2Fx%3Faccess_token%3D1',
    '?my_access_token=x',
    '?my%5Faccess_token=x',
    '?access_tokens=x',
    '?access%255Ftoken=x',
    '?access%FFtoken=x',
    '?%zz=access_token',
  ])
    assert.equal(hasTokenParameter(query), false, query)
})
