import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Field } from '../syntax/field.ts'
import { filterRequestTrailers, filterResponseTrailers } from './trailers.ts'

const OF_A_CONNECTION = [
  'te',
  'trailer',
  'transfer-encoding',
  'connection',
  'upgrade',
  'keep-alive',
  'x-gateway-secret',
]
const OF_A_HEAD = [
  'host',
  'content-length',
  'content-type',
  'content-encoding',
  'cookie',
  'set-cookie',
  'authorization',
]

const named = (names: readonly string[]) => names.map((name) => new Field(name, '1'))

describe('trailers', () => {
  it('of a response pass, but not fields of a connection or a head, nor those that the gateway sets or reads', () => {
    const own = [
      'cache-control',
      'x-request-id',
      'server',
      'ratelimit',
      'x-fapi-interaction-id',
      'x-revoke-session',
    ]
    const kept = ['grpc-status', 'grpc-message', 'x-any']
    const fields = named([...OF_A_CONNECTION, ...OF_A_HEAD, ...own, ...kept, 'x-replaced'])
    const policy = { replaced: new Set(['x-replaced']), added: '', passesAltSvc: false }
    assert.equal(filterResponseTrailers(fields, policy), kept.map((name) => `${name}: 1\r\n`).join(''))
  })

  it('of a request pass, but not fields of a connection or a head, nor claims of who sends it', () => {
    const claims = [
      'x-auth-subject',
      'x-forwarded-for',
      'x-request-id',
      'traceparent',
      'x-api-key',
      'dpop',
      'x_any',
    ]
    const kept = ['x-any', 'digest']
    const passed = filterRequestTrailers(named([...OF_A_CONNECTION, ...OF_A_HEAD, ...claims, ...kept]))
    assert.deepEqual(
      passed.map(({ lower }) => lower),
      kept,
    )
  })
})
