import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { upstreamsTo } from './contract/scripted.test-support.ts'
import { parseAddress } from './upstream-address.ts'

describe('the address of an upstream', () => {
  it('is read from its URL, with the usual port where none is named', () => {
    const read = (url: string) => {
      const { secure, host, port, socketPath } = parseAddress(url)
      return [secure, host, port, socketPath]
    }
    assert.deepEqual(read('http://127.0.0.1:3000'), [false, '127.0.0.1', 3000, undefined])
    assert.deepEqual(read('http://backend/'), [false, 'backend', 80, undefined])
    assert.deepEqual(read('https://backend.test'), [true, 'backend.test', 443, undefined])
    assert.deepEqual(read('https://[::1]:8443'), [true, '::1', 8443, undefined])
    assert.deepEqual(read('unix:/run/backend.sock'), [false, '', 0, '/run/backend.sock'])
  })

  it('says whether HTTP/2 is spoken', () => {
    const read = (url: string) => {
      const { isHttp2, secure, host, port } = parseAddress(url)
      return [isHttp2, secure, host, port]
    }
    assert.deepEqual(read('h2c://backend:50051'), [true, false, 'backend', 50_051])
    assert.deepEqual(read('h2c://Backend'), [true, false, 'backend', 80])
    assert.deepEqual(read('h2://[::1]'), [true, true, '::1', 443])
    assert.deepEqual(read('http://backend').slice(0, 1), [false])
    assert.throws(() => parseAddress('h2c://a/path'), /must end after host and port/)
    assert.throws(() => upstreamsTo(['h2c://a', 'http://b']), /in one group/)
  })

  it('is refused with the URL and the reason when it is anything else', () => {
    const faults: Readonly<Record<string, RegExp>> = {
      'not a url': /upstream not a url: is not a URL/,
      'http://a:99999': /is not a URL/,
      'ftp://a': /must begin with/,
      'http://a/path': /must end after host and port/,
      'http://a?q': /must end after host and port/,
      'http://a#f': /must end after host and port/,
      'http://u:p@a': /must not hold credentials/,
      'unix:relative.sock': /must be absolute/,
    }
    for (const [url, reason] of Object.entries(faults)) assert.throws(() => parseAddress(url), reason)
    assert.throws(() => upstreamsTo(['http://a', 'ftp://b']), TypeError)
    assert.throws(() => upstreamsTo([]), /at least one/)
  })
})
