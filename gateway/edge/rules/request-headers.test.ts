import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fieldsOf } from '../syntax/field.test-support.ts'
import { isValidHost, readRequestHeaders } from './request-headers.ts'

const HOST = ['Host', 'bank.example']

function read(headers: readonly string[], version: '1.0' | '1.1' = '1.1') {
  return readRequestHeaders(fieldsOf(headers), version, 100)
}

function faultOf(headers: string[], version: '1.0' | '1.1' = '1.1'): string | undefined {
  return read([...HOST, ...headers], version).fault?.code
}

describe('readRequestHeaders', () => {
  it('reads what the gateway needs, whatever the case of the names', () => {
    const headers = read([
      'HOST',
      'bank.example',
      'authorization',
      'Bearer x',
      'X-REQUEST-ID',
      'abc',
      'User-Agent',
      'curl/8',
      'Content-Length',
      '12',
    ])
    assert.equal(headers.host, 'bank.example')
    assert.equal(headers.authorization, 'Bearer x')
    assert.equal(headers.requestId, 'abc')
    assert.equal(headers.userAgent, 'curl/8')
    assert.equal(headers.contentLength, 12)
    assert.equal(headers.hasBody, true)
    assert.equal(headers.fault, undefined)
  })

  it('takes a content length of zero for no body', () => {
    assert.equal(read([...HOST, 'Content-Length', '0']).hasBody, false)
  })

  it('takes two request ids for none', () => {
    const headers = read([...HOST, 'X-Request-ID', 'a', 'X-Request-ID', 'b'])
    assert.equal(headers.requestId, '')
    assert.equal(headers.fault, undefined)
  })

  it('takes a traceparent that Connection names for none', () => {
    assert.equal(read([...HOST, 'traceparent', 'a', 'Connection', 'close']).traceparent, 'a')
    for (const named of ['TraceParent', 'close ,traceparent, x'])
      assert.equal(read([...HOST, 'Connection', named, 'traceparent', 'a']).traceparent, undefined)
  })

  it('joins repeated X-Forwarded-For in their order', () => {
    const headers = read([...HOST, 'X-Forwarded-For', 'a', 'x-forwarded-for', 'b, c'])
    assert.equal(headers.forwardedFor, 'a, b, c')
  })

  for (const name of ['Authorization', 'Content-Type', 'Idempotency-Key', 'User-Agent', 'Origin', 'Expect']) {
    it(`refuses a repeated ${name}`, () =>
      assert.equal(faultOf([name, 'a', name.toLowerCase(), 'a']), 'invalid_header'))
  }

  for (const name of ['X-HTTP-Method-Override', 'X-HTTP-Method', 'x-method-override', 'X_HTTP_Method'])
    it(`leaves ${name} to the row`, () =>
      assert.deepEqual(read([...HOST, name, 'DELETE']).oddNames, [name.toLowerCase()]))

  it('refuses a repeated Host', () => assert.equal(faultOf(['host', 'bank.example']), 'invalid_host'))

  it('notes every header name that some upstreams read as another', () => {
    const { oddNames } = read([...HOST, 'X_Auth_Subject', 'root', 'Accept', '*/*', 'Client.Cert', 'x'])
    assert.deepEqual(oddNames, ['x_auth_subject', 'client.cert'])
    assert.equal(read(HOST).oddNames, undefined)
  })

  it('reads a User-Agent as UTF-8 if it is valid, else byte by byte', () => {
    const agentOf = (text: string) => read([...HOST, 'User-Agent', text]).userAgent
    assert.equal(agentOf(Buffer.from('Zürich/1.0 😀').toString('latin1')), 'Zürich/1.0 😀')
    assert.equal(agentOf('Z\xfcrich/1.0'), 'Z\xfcrich/1.0')
    assert.equal(agentOf('curl/8'), 'curl/8')
  })

  it('refuses more than 100 headers and takes 100', () => {
    const many = (count: number) => Array.from({ length: count }, (_, i) => [`x-${i}`, 'v']).flat()
    assert.equal(faultOf(many(99)), undefined)
    assert.equal(faultOf(many(100)), 'headers_too_large')
  })

  it('refuses ambiguous framing', () => {
    assert.equal(faultOf(['Content-Length', '1', 'Transfer-Encoding', 'chunked']), 'invalid_framing')
    assert.equal(faultOf(['Transfer-Encoding', 'gzip, chunked']), 'invalid_framing')
    assert.equal(faultOf(['Transfer-Encoding', '']), 'invalid_framing')
    assert.equal(faultOf(['Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked']), 'invalid_framing')
    assert.equal(faultOf(['Transfer-Encoding', 'chunked'], '1.0'), 'invalid_framing')
    for (const length of ['+3', '-0', '0x5', '5 ', '', '1'.repeat(16)])
      assert.equal(faultOf(['Content-Length', length]), 'invalid_framing', length)
    assert.equal(faultOf(['Content-Length', '1', 'Content-Length', '1']), 'invalid_framing')
    assert.equal(faultOf(['Transfer-Encoding', 'Chunked']), undefined)
  })
})

describe('isValidHost', () => {
  for (const host of ['bank.example', 'host:', 'localhost:8080', '127.0.0.1', '[::1]:80', 'my_service']) {
    it(`takes ${host}`, () => assert.equal(isValidHost(host), true))
  }
  for (const host of [
    undefined,
    '',
    'a b',
    'a/b',
    'user@host',
    ':80',
    'host:port',
    'a,b',
    '[::1',
    'h:123456',
    'h:65536',
    '[:::]',
    '[1.2.3.4]',
  ]) {
    it(`refuses ${host}`, () => assert.equal(isValidHost(host), false))
  }
})
