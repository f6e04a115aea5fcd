import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readStartLine } from './start-line.ts'

describe('readStartLine', () => {
  it('gives method and path, without the query, of a readable first line', () => {
    assert.deepEqual(readStartLine(Buffer.from('GET /a/../b?token=x HTTP/1.1\r\nbad header\r\n')), {
      method: 'GET',
      path: '/b',
    })
  })

  it('gives dashes for what cannot be read', () => {
    const unread = { method: '-', path: '-' }
    assert.deepEqual(readStartLine(undefined), unread)
    assert.deepEqual(readStartLine(Buffer.from([0x16, 0x03, 0x01])), unread)
    assert.deepEqual(readStartLine(Buffer.from('GET / HTTP/2.0\r\n')), unread)
    assert.deepEqual(readStartLine(Buffer.from('GET /%00 HTTP/1.1\r\n')), { method: 'GET', path: '-' })
  })
})
