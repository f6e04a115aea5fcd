import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readTarget } from '../../edge/rules/request-target.ts'
import { foldPath, pathFault, routePathFault } from './path-rules.ts'

test('exact paths, prefixes and escapes that are needed are good', () => {
  for (const path of [
    '/',
    '/*',
    '/api/login',
    '/api/users/*',
    '/a/',
    '/.well-known/jwks.json',
    '/caf%C3%A9',
    '/v1/accounts:close',
    '/v1/a:b/c',
    '/a/:',
    '/a/12:30',
    '/...',
  ]) {
    assert.equal(pathFault(path), undefined, path)
  }
})

test('the fault of a parameter as routers write it says how a route writes it', () => {
  for (const [path, segment] of [
    ['/users/:id', ':id'],
    ['/users/:id?', ':id?'],
    ['/users/{user}/cards/:id', ':id'],
    ['/users/:id/*', ':id'],
  ] as const) {
    const reason = `must not hold the segment "${segment}": it would be taken as it stands; write a part that varies as "{id}"`
    assert.equal(routePathFault(path), reason)
  }
})

test('each way for a path to be wrong has its reason', () => {
  const cases: [path: string, reason: RegExp][] = [
    ['api', /must begin with "\/", but is "api"/],
    ['*', /must begin with "\/"/],
    ['/a*', /"\*" only at the end/],
    ['/*/b', /"\*" only at the end/],
    ['/a/*/', /"\*" only at the end/],
    ['/a/**', /"\*" only at the end/],
    ['/*/*', /"\*" only at the end/],
    ['//a', /must not hold "\/\/"/],
    ['/a//*', /must not hold "\/\/"/],
    ['/a/./b', /"\." or "\.\."/],
    ['/a/..', /"\." or "\.\."/],
    ['/../*', /"\." or "\.\."/],
    ['/a?b=c', /end before "\?"/],
    ['/a#b', /end before "#"/],
    ['/users/:id', /^must not hold the segment ":id": .* write a part that varies as a closing "\/\*"$/],
    ['/users/:id/cards/*', /the segment ":id"/],
    ['/users/{id}', /write a part that varies as a closing "\/\*"/],
    ['/a;b', /must not hold ";": requests that do are refused/],
    ['/a\\b', /must not hold "\\\\": requests that do are refused/],
    ['/a%2Fb', /must not hold "%2F"/],
    ['/a%2fb', /must not hold "%2f"/],
    ['/a%00', /must not hold "%00"/],
    ['/a%3B', /must not hold "%3B"/],
    ['/%61pi', /must hold "a" itself instead of "%61"/],
    ['/v1/accounts%3Aclose', /must hold ":" itself instead of "%3A"/],
    ['/a%40b', /must hold "@" itself instead of "%40"/],
    ['/a%2Ab', /"%2A".*"\*"/],
    ['/caf%E9', /no UTF-8/],
    ['/caf%c3%a9', /two hexadecimal capitals/],
    ['/100%', /two hexadecimal capitals/],
    ['/a b', /must not hold " ": write it percent-encoded/],
    ['/café', /must not hold "é": write it percent-encoded/],
  ]
  for (const [path, reason] of cases) assert.match(pathFault(path) ?? 'good', reason, path)
})

test('a request whose path is good has the same path after normalising', () => {
  const piece = fc.constantFrom(
    '/',
    'a',
    'B',
    '.',
    '..',
    '%',
    '%41',
    '%3A',
    '%2A',
    '%26',
    '[',
    '%5B',
    '&',
    '%2F',
    '%C3%A9',
    '%c3',
    ';',
    '~',
    ':',
    ' ',
    '"',
    '\\',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const path = `/${pieces.join('')}`
      if (pathFault(path) !== undefined) return
      const target = readTarget(path)
      assert.equal(typeof target === 'string' ? target : target.path, path)
    }),
    { numRuns: 3000 },
  )
})

test('a needless escape is a fault that names the character, because requests are compared decoded', () => {
  for (const character of ":@!$&'()+,=-._~aZ9") {
    const octet = `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
    assert.equal(pathFault(`/x${character}y`), undefined)
    assert.match(pathFault(`/x${octet}y`) ?? 'good', /itself instead of/)
    assert.equal((readTarget(`/x${octet}y`) as { path: string }).path, `/x${character}y`)
  }
})

test('folding ignores letter case and a closing slash', () => {
  assert.equal(foldPath('/API/Login/'), '/api/login')
  assert.equal(foldPath('/'), '/')
})
