import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fieldsOf } from '../syntax/field.test-support.ts'
import { Field } from '../syntax/field.ts'
import { endsHere, isNominated, nominatedBy, oneHopLess, withoutNominated } from './hop-by-hop.ts'

describe('hop-by-hop headers', () => {
  it('are the headers of RFC 9110 and the headers that Connection names', () => {
    const nominated = nominatedBy(
      fieldsOf(['Connection', 'close, X-Secret', 'CONNECTION', 'x-other ,keep-alive']),
    )
    assert.deepEqual(nominated, new Set(['x-secret', 'x-other']))
    assert.equal(isNominated('x-secret', nominated), true)
    assert.equal(isNominated('x-else', nominated), false)
  })

  it('never include the headers that frame and address the message', () => {
    const nominated = nominatedBy(fieldsOf(['Connection', 'Content-Length, Host']))
    assert.equal(isNominated('content-length', nominated), false)
    assert.equal(isNominated('host', nominated), false)
  })

  it('are nominated by their names alone, with spaces and tabs around them', () => {
    const nominated = nominatedBy(fieldsOf(['Connection', ' x-a\t,x-b\xa0, \xa0x-c']))
    assert.deepEqual(nominated, new Set(['x-a', 'x-b\xa0', '\xa0x-c']))
  })

  it('leave the other fields, and all fields when Connection names none', () => {
    const fields = fieldsOf(['Connection', 'X-A', 'x-a', '1', 'X-B', '2', 'Host', 'h'])
    assert.deepEqual(
      withoutNominated(fields).map(({ lower }) => lower),
      ['connection', 'x-b', 'host'],
    )
    const others = fieldsOf(['Connection', 'close', 'X-B', '2'])
    assert.equal(withoutNominated(others), others)
  })

  it('are not nominated when Connection only says close', () => {
    assert.equal(nominatedBy(fieldsOf(['Connection', 'close', 'X', 'y'])), undefined)
  })
})

const field = (value: string) => new Field('Max-Forwards', value)

it('Max-Forwards of 0 ends at the gateway, a larger number goes on one less, and other text stays', () => {
  for (const [value, ends, next] of [
    ['0', true, '0'],
    ['00', true, '0'],
    ['1', false, '0'],
    ['70', false, '69'],
    ['', false, ''],
    ['-1', false, '-1'],
    ['1, 2', false, '1, 2'],
    ['9'.repeat(16), false, '9'.repeat(16)],
  ] as const) {
    assert.equal(endsHere([new Field('Accept', '0'), field(value)]), ends, value)
    assert.equal(oneHopLess(field(value)).value, next)
  }
  assert.equal(endsHere([]), false)
})
