import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fieldsOf } from '../syntax/field.ts'
import { isHopByHop, nominatedBy, withoutNominated } from './hop-by-hop.ts'

describe('hop-by-hop headers', () => {
  it('are those of RFC 9110 and those that Connection names', () => {
    const nominated = nominatedBy(
      fieldsOf(['Connection', 'close, X-Secret', 'CONNECTION', 'x-other ,keep-alive']),
    )
    assert.deepEqual(nominated, new Set(['x-secret', 'x-other']))
    assert.equal(isHopByHop('transfer-encoding', undefined), true)
    assert.equal(isHopByHop('x-secret', nominated), true)
    assert.equal(isHopByHop('x-else', nominated), false)
  })

  it('never include the headers that frame and address the message', () => {
    const nominated = nominatedBy(fieldsOf(['Connection', 'Content-Length, Host']))
    assert.equal(isHopByHop('content-length', nominated), false)
    assert.equal(isHopByHop('host', nominated), false)
  })

  it('are nominated by their names alone, with spaces and tabs around them', () => {
    const nominated = nominatedBy(fieldsOf(['Connection', ' x-a\t,x-b\xa0, \xa0x-c']))
    assert.deepEqual(nominated, new Set(['x-a', 'x-b\xa0', '\xa0x-c']))
  })

  it('leave the other fields, all of them where Connection names none', () => {
    const fields = fieldsOf(['Connection', 'X-A', 'x-a', '1', 'X-B', '2', 'Host', 'h'])
    assert.deepEqual(
      withoutNominated(fields).map(({ lower }) => lower),
      ['connection', 'x-b', 'host'],
    )
    const others = fieldsOf(['Connection', 'close', 'X-B', '2'])
    assert.equal(withoutNominated(others), others)
  })

  it('are nominated by nobody when Connection only says close', () => {
    assert.equal(nominatedBy(fieldsOf(['Connection', 'close', 'X', 'y'])), undefined)
  })
})
