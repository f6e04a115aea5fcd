import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fieldsOf } from '../syntax/field.test-support.ts'
import { forwardedPolicy } from './policy/response-policy.ts'
import { filterResponseHead, revokedSessions } from './response-headers.ts'
import { filterResponseTrailers } from './trailers.ts'

describe('filterResponseHead', () => {
  it('drops fields that the gateway sets itself, that belong to one connection, or that name the software', () => {
    const head = filterResponseHead(
      fieldsOf(
        [
          ['Server', 'nginx'],
          ['X-Powered-By', 'Express'],
          ['Cache-Control', 'public'],
          ['x-request-id', 'theirs'],
          ['Connection', 'keep-alive, X-Hop'],
          ['X-Hop', '1'],
          ['Keep-Alive', 'timeout=5'],
          ['Transfer-Encoding', 'chunked'],
          ['X-Revoke-Session', 's1'],
          ['Strict-Transport-Security', 'max-age=0'],
          ['X-Kept', 'yes'],
        ].flat(),
      ),
      200,
    )
    assert.deepEqual(head, { lines: 'X-Kept: yes\r\n', contentLength: undefined, dated: false })
  })

  it('drops fields that a cache obeys before no-store', () => {
    const names = [
      'CDN-Cache-Control',
      'Surrogate-Control',
      'Cloudflare-CDN-Cache-Control',
      'Vercel-CDN-Cache-Control',
      'x-cdn-cache-control',
      'Edge-Control',
      'X-Accel-Expires',
      'X-LiteSpeed-Cache-Control',
    ]
    const fields = fieldsOf(names.flatMap((name) => [name, 'max-age=9']))
    assert.equal(
      filterResponseHead([...fields, ...fieldsOf(['CDN-Cache', 'HIT'])], 200).lines,
      'CDN-Cache: HIT\r\n',
    )
    assert.equal(filterResponseTrailers(fields), '')
  })

  it('drops fields with other addresses of the service, unless the file allows them', () => {
    const fields = fieldsOf(['Alt-Svc', 'h3=":443"'])
    for (const headers of [{}, { altSvc: false }, { referrerPolicy: 'no-referrer' }])
      assert.equal(filterResponseHead(fields, 200, undefined, forwardedPolicy(headers, false)).lines, '')
    const passing = forwardedPolicy({ altSvc: true }, false)
    assert.equal(filterResponseHead(fields, 200, undefined, passing).lines, 'Alt-Svc: h3=":443"\r\n')
    assert.equal(filterResponseTrailers(fields, passing), '')
  })

  it('drops the RateLimit fields of the upstream if the gateway sets its own', () => {
    const fields = fieldsOf(['RateLimit', '"x";r=9;t=1', 'RateLimit-Policy', '"x";q=9;w=1', 'X-Kept', 'yes'])
    assert.equal(
      filterResponseHead(fields, 200, { limitHeaders: ['RateLimit', 'x'], interactionId: undefined }).lines,
      'X-Kept: yes\r\n',
    )
    assert.match(filterResponseHead(fields, 200).lines, /^RateLimit: "x";r=9;t=1\r\nRateLimit-Policy: /)
  })

  it('keeps repeated Set-Cookie lines apart', () => {
    const { lines } = filterResponseHead(fieldsOf(['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2']), 200)
    assert.equal(lines, 'Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n')
  })

  it('reads the content length, and drops it from a 204', () => {
    assert.deepEqual(filterResponseHead(fieldsOf(['Content-Length', '7']), 200), {
      lines: 'Content-Length: 7\r\n',
      contentLength: 7,
      dated: false,
    })
    assert.equal(
      filterResponseHead(fieldsOf(['content-length', '0010']), 200).lines,
      'Content-Length: 10\r\n',
    )
    assert.deepEqual(filterResponseHead(fieldsOf(['Content-Length', '0']), 204), {
      lines: '',
      contentLength: undefined,
      dated: false,
    })
  })
})

describe('revokedSessions', () => {
  it('are all that the upstream names, in any number of fields, separated by commas or spaces', () => {
    const lists = ['X-Revoke-Session', 'a, b,c', 'X-Revoke-Session', 'd e ,, f,', 'x-revoke-session', 'g']
    assert.deepEqual(revokedSessions(fieldsOf(lists)), ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
    assert.deepEqual(revokedSessions(fieldsOf(['X-Revoke-Session', '', 'X-Other', 'a'])), [])
  })
})
