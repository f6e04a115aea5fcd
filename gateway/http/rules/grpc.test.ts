import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Field } from '../syntax/field.ts'
import { grpcStatusLines, grpcTimeoutMs, isGrpc } from './grpc.ts'

const ofType = (type: string) => [new Field('content-type', type)]

describe('a call of gRPC', () => {
  it('is known by its content type, in HTTP/2 only', () => {
    for (const type of [
      'application/grpc',
      'application/grpc+proto',
      'Application/gRPC; a=b',
      'application/grpc ;a=b',
    ])
      assert.equal(isGrpc({ version: '2', fields: ofType(type) }), true, type)
    for (const type of [
      'application/grpc-web',
      'application/grpc-web+proto',
      'application/grpcx',
      'x/application/grpc',
    ])
      assert.equal(isGrpc({ version: '2', fields: ofType(type) }), false, type)
    assert.equal(isGrpc({ version: '1.1', fields: ofType('application/grpc') }), false)
    assert.equal(isGrpc({ version: '2', fields: [] }), false)
  })

  it('says how long it waits, or not as it should', () => {
    const read = (value: string) => grpcTimeoutMs([new Field('grpc-timeout', value)])
    assert.deepEqual(
      ['2H', '2M', '2S', '2m', '2000u', '2000000n', '99999999S'].map(read),
      [7_200_000, 120_000, 2000, 2, 2, 2, 99_999_999_000],
    )
    for (const value of ['', '2', 'S', '-2S', '2.5S', '2s', '123456789S', '2S, 3S'])
      assert.equal(read(value), undefined, value)
    assert.equal(grpcTimeoutMs([]), undefined)
  })

  it('is refused with a status of its own, and a message that is always one line', () => {
    assert.equal(grpcStatusLines(401, 'A token.'), 'grpc-status: 16\r\ngrpc-message: A token.\r\n')
    assert.equal(
      grpcStatusLines(418, '100 %\r\nü'),
      'grpc-status: 2\r\ngrpc-message: 100 %25%0D%0A%C3%BC\r\n',
    )
    const statuses = [400, 403, 404, 413, 429, 503, 504]
    const codes = statuses.map((status) => /\d+/.exec(grpcStatusLines(status, ''))?.[0])
    assert.deepEqual(codes, ['13', '7', '12', '8', '8', '14', '4'])
  })
})
