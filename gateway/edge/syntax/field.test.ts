import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fieldsOf } from './field.test-support.ts'
import { checkedField, Field, valueIn } from './field.ts'

describe('a field', () => {
  it('is its name in both spellings, its value, and the line that goes on the wire', () => {
    const { name, lower, value, line } = new Field('X-Name', 'a, b')
    assert.deepEqual([name, lower, value, line], ['X-Name', 'x-name', 'a, b', 'X-Name: a, b\r\n'])
  })

  it('cannot be made of text that would become something else on the wire', () => {
    for (const value of ['b\r\nc: d', 'b\nc', 'b\r', 'b\0', '\x7f', 'b\u010a']) {
      assert.throws(() => checkedField('x-a', value), { name: 'TypeError', message: /x-a/ })
    }
    for (const name of ['', 'x a', 'x:', 'x\r\n', 'x\u0141', 'j\xf6rg']) {
      assert.throws(() => checkedField(name, 'b'), TypeError)
    }
    assert.equal(checkedField('x-a', 'J\xf6rg \t').line, 'x-a: J\xf6rg \t\r\n')
  })

  it('is found by its name in lower case, the first of several, among any number of names', () => {
    const flat = Array.from({ length: 1100 }, (_, n) => [`X-${n}`, `v${n}`]).flat()
    const fields = fieldsOf([...flat, 'X-7', 'second'])
    assert.equal(valueIn(fields, 'x-7'), 'v7')
    assert.equal(valueIn(fields, 'x-1099'), 'v1099')
    assert.equal(valueIn(fields, 'x-1100'), undefined)
  })
})
