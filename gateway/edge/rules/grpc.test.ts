import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Field } from '../syntax/field.ts'
import {
  GRPC_STATUSES,
  grpcStatusIn,
  grpcStatusLines,
  grpcStatusOfHttp,
  grpcStatusOfRefusal,
  grpcTimeoutMs,
  httpStatusOfGrpc,
  isGrpc,
} from './grpc.ts'

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

  it('says how long it waits, unless its timeout is malformed', () => {
    const read = (value: string) => grpcTimeoutMs([new Field('grpc-timeout', value)])
    assert.deepEqual(
      ['2H', '2M', '2S', '2m', '2000u', '2000000n', '99999999S'].map(read),
      [7_200_000, 120_000, 2000, 2, 2, 2, 99_999_999_000],
    )
    for (const value of ['', '2', 'S', '-2S', '2.5S', '2s', '123456789S', '2S, 3S'])
      assert.equal(read(value), undefined, value)
    assert.equal(grpcTimeoutMs([]), undefined)
  })

  it('is refused with a status of gRPC, and a message that is always one line', () => {
    assert.equal(grpcStatusLines(16, 'A token.'), 'grpc-status: 16\r\ngrpc-message: A token.\r\n')
    assert.equal(grpcStatusLines(2, '100 %\r\nü'), 'grpc-status: 2\r\ngrpc-message: 100 %25%0D%0A%C3%BC\r\n')
    const statuses = [400, 401, 403, 404, 413, 418, 429, 502, 503, 504]
    assert.deepEqual(statuses.map(grpcStatusOfRefusal), [13, 16, 7, 12, 8, 2, 8, 14, 14, 4])
  })

  it('ends with the status of its response, or with UNKNOWN if that is no status of gRPC', () => {
    const read = (value: string) => grpcStatusIn([new Field('grpc-status', value)])
    assert.deepEqual(
      ['0', '14', '16', '17', '99', '100', '-1', '', 'OK'].map(read),
      [0, 14, 16, 2, 2, 2, 2, 2, 2],
    )
    assert.equal(grpcStatusIn([new Field('grpc-message', '0')]), undefined)
    assert.deepEqual([200, 404, 429, 500, 503, 504].map(grpcStatusOfHttp), [2, 12, 14, 2, 14, 14])
  })

  it('counts as a failure of the service by its status', () => {
    const failed = GRPC_STATUSES.filter((_, status) => httpStatusOfGrpc(status) >= 500)
    assert.deepEqual(failed, ['UNKNOWN', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS'])
  })
})
