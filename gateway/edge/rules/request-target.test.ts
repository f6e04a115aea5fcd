import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { readTarget } from './request-target.ts'

function pathOf(raw: string): string {
  const target = readTarget(raw)
  assert.equal(typeof target, 'object', `${raw} was refused: ${target}`)
  return (target as { path: string }).path
}

/** Writes a character of a path as itself, or percent-encoded with digits in upper or lower case. */
function spell({ letter, encode, small }: { letter: string; encode: boolean; small: boolean }): string {
  const octet = letter.startsWith('%')
    ? letter
    : `%${letter.charCodeAt(0).toString(16).padStart(2, '0').toUpperCase()}`
  if (!encode) return letter === '%22' ? '"' : letter === '%5B' ? '[' : letter
  return small ? octet.toLowerCase() : octet
}

describe('readTarget', () => {
  it('gives an ordinary path and its query back as they are', () => {
    assert.deepEqual(readTarget('/api/users?limit=2&after=%2F'), {
      path: '/api/users',
      query: '?limit=2&after=%2F',
      authority: undefined,
    })
  })

  const normalised: [string, string][] = [
    ['/a/../b', '/b'],
    ['/a/%2e%2E/b', '/b'],
    ['/a/./b/.', '/a/b/'],
    ['/..', '/'],
    ['/../../etc', '/etc'],
    ['/a/..', '/'],
    ['//a///b//', '/a/b/'],
    ['/%61%7e', '/a~'],
    ['/%c3%a9', '/%C3%A9'],
    ['/a%20b', '/a%20b'],
    ['/%252e%252e/b', '/%252e%252e/b'],
    ['/...', '/...'],
    ['/v1/accounts%3Aclose', '/v1/accounts:close'],
    ['/%3a%40%21%24%26%27%28%29%2A%2b%2C%3d', "/:@!$&'()*+,="],
    ["/:@!$&'()*+,=", "/:@!$&'()*+,="],
    ['/a%3Fb%23c%25', '/a%3Fb%23c%25'],
    ['/a["<>^`{|}]', '/a%5B%22%3C%3E%5E%60%7B%7C%7D%5D'],
  ]
  for (const [raw, path] of normalised) {
    it(`reads ${raw} as ${path}`, () => assert.equal(pathOf(raw), path))
  }

  const refused = [
    '/a%2Fb',
    '/a%2fb',
    '/a%5cb',
    '/a\\b',
    '/a%00b',
    '/a%0d%0ab',
    '/a%7Fb',
    '/a;v=1',
    '/a%3Bv=1',
    '/caf\u00e9',
    '/%c0%af',
    '/%ff',
    '/%zz',
    '/%',
    '/%a',
    '/a#b',
    '/a?caf\u00e9',
    '/a?\xff',
    '*',
    'api/users',
    '',
    'ftp://host/x',
  ]
  for (const raw of refused) {
    it(`refuses ${JSON.stringify(raw)} with a sentence`, () => assert.equal(typeof readTarget(raw), 'string'))
  }

  it('takes the authority of an absolute-form target', () => {
    assert.deepEqual(readTarget('http://bank.example:8080/api?x=1'), {
      path: '/api',
      query: '?x=1',
      authority: 'bank.example:8080',
    })
    assert.deepEqual(readTarget('HTTP://bank.example?x'), {
      path: '/',
      query: '?x',
      authority: 'bank.example',
    })
  })

  it('gives one spelling of a path, however its characters are encoded', () => {
    const letters = "abzAZ09-._~:@!$&'()*+,=".split('').concat('%20', '%25', '%3F', '%C3%A9', '%22', '%5B')
    const written = fc.record({
      letter: fc.constantFrom(...letters),
      encode: fc.boolean(),
      small: fc.boolean(),
    })
    const segment = fc.array(written, { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(fc.array(segment, { minLength: 1, maxLength: 4 }), (segments) => {
        const plain = segments.map((one) => one.map(({ letter }) => letter).join(''))
        fc.pre(!plain.some((one) => one === '.' || one === '..'))
        const path = `/${plain.join('/')}`
        const spelt = `/${segments.map((one) => one.map(spell).join('')).join('/')}`
        assert.equal(pathOf(spelt), path)
        assert.equal(pathOf(path), path)
      }),
      { numRuns: 2000 },
    )
  })

  it('leaves a normalised path as it is, so that what is matched is what is forwarded', () => {
    const piece = fc.constantFrom('a', 'B', '.', '..', '/', '%2e', '%41', '%20', '%c3%a9', '~', '', 'x.y')
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
        const path = pathOf(`/${pieces.join('')}`)
        assert.equal(pathOf(path), path)
        assert.ok(!path.includes('//') && !/\/\.\.?(\/|$)/.test(path), path)
      }),
    )
  })
})
