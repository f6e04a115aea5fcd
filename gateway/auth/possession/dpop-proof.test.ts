import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readHtu } from './dpop-proof.ts'

function read(htu: string): string | undefined {
  const { origin, path } = readHtu(htu) ?? {}
  return origin === undefined ? undefined : `${origin} ${path}`
}

for (const [htu, expected] of [
  ['https://api.example/a', 'https://api.example /a'],
  ['HTTPS://API.Example/A', 'https://api.example /A'],
  ['https://api.example:443/a', 'https://api.example /a'],
  ['https://api.example:0443/a', 'https://api.example /a'],
  ['https://api.example:/a', 'https://api.example /a'],
  ['http://api.example:80/a', 'http://api.example /a'],
  ['https://api.example:80/a', 'https://api.example:80 /a'],
  ['http://[2001:DB8::1]:8080/a', 'http://[2001:db8::1]:8080 /a'],
  ['https://api.example', 'https://api.example /'],
  ['https://api.example?q=/b', 'https://api.example /'],
  ['https://api.example#/b', 'https://api.example /'],
  ['https://api.example/a?x=1&y=2', 'https://api.example /a'],
  ['https://api.example/a#part', 'https://api.example /a'],
  ['https://api.example/a#part?x', 'https://api.example /a'],
  ['https://api.example/x/../%61/./b%2d', 'https://api.example /a/b-'],
  ['https://api.example/a%3Aclose', 'https://api.example /a:close'],
  ['https://api.example//a', 'https://api.example /a'],
  ['https://api.example/%c3%a9', 'https://api.example /%C3%A9'],
  ['https://user@api.example/a', undefined],
  ['https://api.example@evil.example/a', undefined],
  ['https://api.example\\@evil.example/a', undefined],
  ['https://api.example:65a/a', undefined],
  ['https://api.example:123456/a', undefined],
  ['https:///a', undefined],
  ['https://', undefined],
  ['ftp://api.example/a', undefined],
  ['//api.example/a', undefined],
  ['/a', undefined],
  ['', undefined],
  [' https://api.example/a', undefined],
  ['https://api.example/a b', undefined],
  ['https://api.example/a%2fb', undefined],
  ['https://api.exämple/a', undefined],
] as const) {
  test(`htu ${JSON.stringify(htu)} is read as ${expected ?? 'none'}`, () => assert.equal(read(htu), expected))
}

/** URLs in many spellings. `fc.webUrl` would take 1 s to make. */
const URLS = fc
  .tuple(
    fc.constantFrom('http', 'https', 'HTTPS'),
    fc.constantFrom('api.example', 'API.Example', '192.0.2.1', '[2001:DB8::1]'),
    fc.constantFrom('', ':', ':443', ':0080', ':8443'),
    fc.array(
      fc.constantFrom(
        'a',
        'Z',
        '0',
        '/',
        '..',
        '.',
        '%61',
        '%2e',
        '%2F',
        '%c3%a9',
        '-',
        '@',
        ':',
        ';',
        '?',
        '#',
        '=&',
      ),
      { maxLength: 12 },
    ),
  )
  .map(([scheme, host, port, parts]) => `${scheme}://${host}${port}/${parts.join('')}`)

test('what was read is read the same again, and nothing makes reading throw', () => {
  let readable = 0
  fc.assert(
    fc.property(fc.oneof(URLS, fc.string()), (url) => {
      const first = readHtu(url)
      if (first === undefined) return
      readable++
      assert.deepEqual(readHtu(first.origin + first.path), first)
    }),
  )
  assert.ok(readable > 0)
})

test('an encoded slash and a parameter are read where a route may let them through', () => {
  const leniency = { encodedSlashes: true, pathParameters: true, underscoreNames: false }
  assert.equal(readHtu('https://api.example/@a%2fb;c', leniency)?.path, '/@a%2Fb;c')
})
