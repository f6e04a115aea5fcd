import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ResponseReader } from './response-reader.ts'

const GOOD = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello'

describe('the reader of responses', () => {
  it('knows a response to be whole wherever it was split', () => {
    for (let at = 1; at < GOOD.length; at++) {
      const reader = new ResponseReader(5)
      assert.equal(reader.take(Buffer.from(GOOD.slice(0, at))), false)
      assert.equal(reader.take(Buffer.from(GOOD.slice(at))), true)
      assert.equal(reader.take(Buffer.from(GOOD)), true)
    }
  })

  it('throws for another status', () => {
    const reader = new ResponseReader(5)
    assert.throws(() => reader.take(Buffer.from(GOOD.replace('200 OK', '401 No'))), /not 200: HTTP\/1.1 401/)
  })

  it('throws for another length, or none', () => {
    assert.throws(() => new ResponseReader(6).take(Buffer.from(GOOD)), /5 bytes instead of 6/)
    const chunked = GOOD.replace('Content-Length: 5', 'Transfer-Encoding: chunked')
    assert.throws(() => new ResponseReader(5).take(Buffer.from(chunked)), /unknown bytes instead of 5/)
  })

  it('takes any length when none is expected, but needs to know it', () => {
    const reader = new ResponseReader(undefined)
    assert.equal(reader.take(Buffer.from(GOOD)), true)
    assert.equal(reader.take(Buffer.from(GOOD.replace('5', '6'))), false)
    assert.equal(reader.take(Buffer.from('!')), true)
    const chunked = GOOD.replace('Content-Length: 5', 'Transfer-Encoding: chunked')
    assert.throws(() => reader.take(Buffer.from(chunked)), /unknown bytes/)
  })

  it('throws for bytes after the end', () => {
    assert.throws(() => new ResponseReader(5).take(Buffer.from(`${GOOD}!`)), /1 bytes after the end/)
  })

  it('does not keep the bytes it was handed', () => {
    const reader = new ResponseReader(5)
    const buffer = Buffer.from(GOOD.slice(0, 20))
    reader.take(buffer)
    buffer.fill(0)
    assert.equal(reader.take(Buffer.from(GOOD.slice(20))), true)
  })
})
