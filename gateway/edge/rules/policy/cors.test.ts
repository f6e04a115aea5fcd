import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fieldsOf } from '../../syntax/field.test-support.ts'
import {
  allowsOrigin,
  type CorsTerms,
  corsLines,
  corsOf,
  originFault,
  whyNotAllowed,
  whyNotPermitted,
} from './cors.ts'

const TERMS: CorsTerms = {
  origins: ['https://app.example'],
  credentials: false,
  methods: ['GET'],
  headers: [],
  exposedHeaders: [],
  maxAgeSeconds: 0,
}

describe('an entry of origins', () => {
  const good = [
    '*',
    'https://app.example',
    'http://localhost:5173',
    'http://localhost:*',
    'https://*.app.example',
    'https://*.app.example:8443',
    'http://[::1]:3000',
    'capacitor://localhost',
  ]
  for (const origin of good) it(`may be ${origin}`, () => assert.equal(originFault(origin), undefined))

  const bad = [
    'null',
    'app.example',
    'https://App.example',
    'https://app.example/',
    'https://app.example/x',
    'https://app.example:443',
    'http://*.example:80',
    'https://*.com',
    'https://*',
    'https://a*.example.com',
    'https://app.*',
    'https://*.*.example.com',
    '*://app.example',
    'https://user@app.example',
    'https://app.example\r\nX: y',
  ]
  for (const origin of bad)
    it(`must not be ${JSON.stringify(origin)}`, () => assert.match(String(originFault(origin)), /^must/))
})

describe('a pattern', () => {
  const cases: [string, string, boolean][] = [
    ['https://*.app.example', 'https://a.app.example', true],
    ['https://*.app.example', 'https://a.b.app.example', true],
    ['https://*.app.example', 'https://app.example', false],
    ['https://*.app.example', 'https://.app.example', false],
    ['https://*.app.example', 'https://evil.example#.app.example', false],
    ['https://*.app.example', 'https://a.appxexample', false],
    ['https://*.app.example', 'https://a.app.example.evil.example', false],
    ['https://*.app.example', 'http://a.app.example', false],
    ['https://*.app.example', 'https://a.app.example:8443', false],
    ['http://localhost:*', 'http://localhost:1', true],
    ['http://localhost:*', 'http://localhost', true],
    ['http://localhost:*', 'http://localhost:1@evil.example', false],
    ['http://localhost:*', 'http://localhost.evil.example', false],
  ]
  for (const [pattern, origin, allowed] of cases) {
    it(`${pattern} ${allowed ? 'covers' : 'does not cover'} ${origin}`, () => {
      assert.equal(allowsOrigin(corsOf({ ...TERMS, origins: [pattern] }), origin), allowed)
    })
  }
})

describe('the lines of a response', () => {
  it('name an origin once, and vary by Origin also when it is not allowed or is missing', () => {
    const cors = corsOf({ ...TERMS, credentials: true })
    const lines = (...origin: string[]) => corsLines(cors, fieldsOf(origin.flatMap((one) => ['Origin', one])))
    assert.equal(
      lines('https://app.example'),
      'Access-Control-Allow-Origin: https://app.example\r\nAccess-Control-Allow-Credentials: true\r\nVary: Origin\r\n',
    )
    assert.equal(lines('https://other.example'), 'Vary: Origin\r\n')
    assert.equal(lines(), 'Vary: Origin\r\n')
  })
})

describe('the log says', () => {
  const cors = corsOf({
    ...TERMS,
    origins: ['https://app.example', 'https://*.b.example'],
    headers: ['Authorization'],
  })

  it('which origin was refused, and which origins are allowed', () => {
    assert.equal(
      whyNotAllowed(cors, 'https://evil"\n'),
      'origin "https://evil\\"\\n" is not one of "cors.origins": https://app.example, https://*.b.example',
    )
  })

  it('what a preflight asks for that the route does not permit', () => {
    const why = (requestedMethod: string, asked: string) =>
      whyNotPermitted(
        cors,
        { origin: 'https://app.example', requestedMethod },
        fieldsOf(['Access-Control-Request-Headers', asked]),
      )
    const wants = 'which a page of "https://app.example" wants'
    assert.equal(why('GET', 'authorization'), undefined)
    assert.equal(why('POST', ''), undefined)
    assert.equal(why('GET', 'authorization, X-A,x-b'), `"cors.headers" lacks "x-a, x-b", ${wants}`)
    assert.equal(why('DELETE', 'authorization'), `"cors.methods" lacks "DELETE", ${wants}`)
  })

  it('no more than a page could want, however much is asked for', () => {
    const long = 'x'.repeat(9999)
    for (const asked of ['a,'.repeat(5000), long, 'authorization']) {
      const fields = fieldsOf(['Access-Control-Request-Headers', asked])
      const cause = whyNotPermitted(cors, { origin: long, requestedMethod: long }, fields)
      assert.ok(cause !== undefined && cause.length < 700, String(cause))
    }
    const late = `${'authorization,'.repeat(50)}x-a`
    const fields = fieldsOf(['Access-Control-Request-Headers', late])
    assert.equal(
      whyNotPermitted(cors, { origin: 'https://app.example', requestedMethod: 'GET' }, fields),
      undefined,
    )
  })
})
