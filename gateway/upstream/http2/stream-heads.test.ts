import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fieldsOf } from '../../edge/syntax/field.test-support.ts'
import { CommonFields } from '../common-fields.ts'
import { readResponseHead, requestHead } from './stream-heads.ts'

const requestWith = (common: string[], own: string[]) => ({
  method: 'GET',
  target: '/',
  common: new CommonFields(fieldsOf(common)),
  fields: fieldsOf(own),
  body: null,
  upgrade: undefined,
  idleMs: 1000,
  totalMs: undefined,
})

test('the common fields of a request over HTTP/2 come before its own, with one Host for :authority', () => {
  const pseudo = [':method', 'GET', ':path', '/', ':authority', 'h']
  for (const own of ['1', '2']) {
    const head = requestHead(requestWith(['Host', 'h', 'X-A', 'a'], ['X-B', own]), 'h2c://up')
    assert.deepEqual(head, [...pseudo, 'x-a', 'a', 'x-b', own])
  }
})

test("a second Host, or a field of one connection, is refused among the common fields as among the request's own", () => {
  assert.throws(
    () => requestHead(requestWith(['host', 'h'], ['host', 'h']), 'h2c://up'),
    /more than one Host/,
  )
  assert.throws(
    () => requestHead(requestWith(['upgrade', 'x'], ['host', 'h']), 'h2c://up'),
    /belongs to one connection/,
  )
  assert.throws(
    () => requestHead(requestWith(['host', 'h'], ['te', 'x']), 'h2c://up'),
    /belongs to one connection/,
  )
})

test('a response has at most one Content-Length, a number below 2^53', () => {
  const read = (...values: string[]) =>
    typeof readResponseHead([':status', '200', ...values.flatMap((value) => ['content-length', value])])
  assert.equal(read('9007199254740991'), 'object')
  for (const bad of [['9007199254740992'], ['+1'], [''], ['1', '1']]) assert.equal(read(...bad), 'string')
})
