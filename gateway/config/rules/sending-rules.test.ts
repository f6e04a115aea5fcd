import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseGatewayFile } from '../gateway-file.ts'

function faultsOf(row: object): string[] {
  const text = JSON.stringify({ routes: [{ path: '/api/*', auth: ['none'], ...row }] })
  return (parseGatewayFile('g', text).faults ?? []).map(
    ({ path, reason }) => `${path.replace('$.routes[0].', '')}: ${reason}`,
  )
}

function refuses(row: object, ...expected: RegExp[]): void {
  const found = faultsOf(row)
  assert.equal(found.length, expected.length, found.join('\n'))
  for (const [index, pattern] of expected.entries()) assert.match(found[index] ?? '', pattern)
}

test('a rewrite fits the kind of its row, has only parameters of the row, and a path that requests may have', () => {
  refuses({ rewrite: {} }, /^rewrite: must/)
  refuses({ rewrite: { path: '/x' } }, /^rewrite: must have "prefix".*"\/api\/\*"/)
  refuses({ rewrite: { prefix: '/a', path: '/b' } }, /not both/)
  refuses({ path: '/api/{id}', rewrite: { prefix: '/x' } }, /must have "path"/)
  refuses({ path: '/api/{id}', rewrite: { path: '/x/{other}' } }, /which has \{id\}, but uses \{other\}/)
  for (const prefix of [
    'v2',
    '/v2/',
    '/a/../b',
    '//a',
    '/a?x',
    '/a#x',
    '/a%2Fb',
    '/a;b',
    '/a\\b',
    '/a\r\nb',
    '/é',
    '/v2/*',
    '/{x}',
    '/%7E',
  ])
    refuses({ rewrite: { prefix } }, /^rewrite: (?:must (?:not )?have|has|may use only)/)
  for (const path of ['/x/*', '/x/{id}{id}', '/..', '/{id}/../y', '/x y', '/x%00', '/{id'])
    refuses({ path: '/api/{id}', rewrite: { path } }, /^rewrite: (?:must have|has)/)
  assert.deepEqual(faultsOf({ rewrite: { prefix: '/' } }), [])
  assert.deepEqual(faultsOf({ path: '/api/exact', rewrite: { path: '/other' } }), [])
})

test('upstreamHost is a known word or a host, and rawPath excludes rewrite', () => {
  for (const upstreamHost of ['a b', 'a\r\nX: y', 'http://a', 'a/b', 'a:99999', ''])
    refuses({ upstreamHost }, /^upstreamHost: /)
  refuses({ rawPath: true, rewrite: { prefix: '/v2' } }, /^rawPath: must not be true beside "rewrite"/)
})

test('no row lets a name through that the gateway writes or that belongs to the connection, however it is written', () => {
  const own = [
    'X-Auth-Subject',
    'x-auth-client',
    'X-AUTH-SCOPE',
    'X-Auth-Method',
    'X-Auth-Session',
    'X-Forwarded-For',
    'X-Forwarded-Proto',
    'X-Forwarded-Host',
    'X-Real-IP',
    'Forwarded',
    'Client-Cert',
    'X-Request-ID',
    'traceparent',
    'Host',
    'Content-Length',
    'Proxy',
  ]
  const hops = [
    'Connection',
    'Keep-Alive',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Proxy-Authorization',
    'X-Gateway-Secret',
    'HTTP2-Settings',
  ]
  for (const name of [...own, ...hops]) {
    refuses({ requestHeaders: { allow: [name] } }, /^requestHeaders\.allow\[0\]: must not name/)
    refuses({ requestHeaders: { remove: [name] } }, /^requestHeaders\.remove\[0\]: must not name/)
    for (const written of [name, name.replaceAll('-', '_'), name.replaceAll('-', '.').toUpperCase()])
      refuses({ requestHeaders: { set: { [written]: 'x' } } }, /^requestHeaders\.set.*: must not name/)
    if (name.includes('-'))
      refuses({ requestHeaders: { allow: [name.replaceAll('-', '_')] } }, /letters, digits and hyphens/)
  }
  refuses({ requestHeaders: { allow: ['X-Own'] } }, /need not be named/)
  for (const name of ['X-Auth-Token', 'Remote-User', 'X-Forwarded-Prefix', 'X-Method-Override'])
    assert.deepEqual(faultsOf({ requestHeaders: { allow: [name] } }), [], name)
})

test('a header is set to one line of visible ASCII, and its name stands once', () => {
  for (const value of ['', 'a\r\nb', 'a\nb', 'a\0', '\x80', 'é', ' a', 'a '])
    refuses({ requestHeaders: { set: { 'X-A': value } } }, /^requestHeaders\.set/)
  for (const name of ['a b', 'a:b', 'a\r\nb', '', 'é'])
    refuses({ requestHeaders: { set: { [name]: 'x' } } }, /name of a header/)
  refuses({ requestHeaders: { set: { 'X-HTTP-Method': 'PUT' } } }, /another method/)
  refuses({ requestHeaders: { set: { 'X-A': 'x', X_A: 'y' } } }, /more than once/, /more than once/)
  refuses(
    { requestHeaders: { allow: ['X-Auth-Token'], remove: ['x_auth_token'] } },
    /more than once/,
    /more than once/,
  )
})

test('no row sets or removes a mandatory header of responses, or one that says where they end', () => {
  const names = [
    'Strict-Transport-Security',
    'x-content-type-options',
    'X-Frame-Options',
    'X-XSS-Protection',
    'X-Request-ID',
    'Cache-Control',
    'CDN-Cache-Control',
    'Fastly-CDN-Cache-Control',
    'Content-Length',
    'Transfer-Encoding',
    'Connection',
    'Server',
    'X-Powered-By',
    'RateLimit',
    'Date',
    'Sunset',
  ]
  for (const name of names) {
    refuses({ responseHeaders: { remove: [name] } }, /^responseHeaders\.remove\[0\]: must not name/)
    refuses({ responseHeaders: { set: { [name]: 'x' } } }, /^responseHeaders\.set.*: must not name/)
  }
  refuses({ responseHeaders: { set: { 'Referrer-Policy': 'x' } } }, /write it as "referrerPolicy"/)
  refuses({ responseHeaders: { set: { Signature: 'gateway=:AAAA:' } } }, /no fixed value fits each response/)
  refuses({ responseHeaders: { set: { 'Access-Control-Allow-Origin': '*' } } }, /write it as "cors"/)
  refuses({ responseHeaders: { set: { 'X-A': 'a\r\nb' } } }, /^responseHeaders\.set/)
})

test('dates exist in the calendar, and sunset is not before deprecated', () => {
  for (const deprecated of [
    '2026-02-30',
    '2026-13-01',
    'soon',
    '1.1.2026',
    '2026-01-01T25:00:00Z',
    '2026-01-01T00:00:00+01:00',
  ])
    refuses({ deprecated }, /^deprecated: must be a (?:real )?date/)
  refuses({ deprecated: '2027-01-02', sunset: '2027-01-01' }, /^sunset: must not be before "deprecated"/)
})
