import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parseGatewayFile } from '../gateway-file.ts'

function faults(settings: object, route: object = {}): string[] {
  const text = JSON.stringify({ routes: [{ path: '/a', auth: ['bearer'], ...route }], ...settings })
  const parsed = parseGatewayFile('gateway.json', text)
  return (parsed.faults ?? []).map(({ path, reason }) => `${path}: ${reason.replace(/ \(line \d+\)$/, '')}`)
}

type Case = [string, string[], RegExp]

const cases: Case[] = [
  [
    'a network that is none',
    faults({}, { addresses: { allow: ['10.0.0.0/33'] } }),
    /^\$\.routes\[0\]\.addresses\.allow\[0\]: must be an IP/,
  ],
  [
    'an empty list, which would let in nobody or everybody',
    faults({ addresses: { allow: [] } }),
    /^\$\.addresses\.allow: /,
  ],
  [
    'an IPv6 network with all of IPv4 in it',
    faults({ addresses: { allow: ['::/0'] } }),
    /^\$\.addresses\.allow\[0\]: .*every IPv4/,
  ],
  [
    '"*" with credentials',
    faults({}, { cors: { origins: ['*'], credentials: true } }),
    /^\$\.routes\[0\]\.cors\.credentials: must not be true/,
  ],
  [
    'the origin null',
    faults({}, { cors: { origins: ['null'] } }),
    /^\$\.routes\[0\]\.cors\.origins\[0\]: must not be "null"/,
  ],
  [
    'a method that the route refuses',
    faults({}, { methods: ['GET'], cors: { origins: ['*'], methods: ['PUT'] } }),
    /cors\.methods\[0\]: must be one of the route's/,
  ],
  [
    'a method that is not registered and that the route does not list',
    faults({}, { cors: { origins: ['*'], methods: ['PURGE'] } }),
    /cors\.methods\[0\]: must be one of the route's/,
  ],
  [
    'a header "*"',
    faults({}, { cors: { origins: ['*'], headers: ['*'] } }),
    /cors\.headers\[0\]: must not be "\*"/,
  ],
  [
    'a header with a line end',
    faults({}, { cors: { origins: ['*'], exposedHeaders: ['a\r\nb'] } }),
    /cors\.exposedHeaders\[0\]: must be the name/,
  ],
  [
    'shadow without anything to decide',
    faults({}, { auth: ['none'], mode: 'shadow' }),
    /^\$\.routes\[0\]\.mode: must not be "shadow"/,
  ],
  [
    'an idempotency key that is kept for less than a minute',
    faults({}, { idempotency: { keep: '59s' } }),
    /^\$\.routes\[0\]\.idempotency\.keep: must be from "1m" to "30d"/,
  ],
  [
    'an idempotency key that is kept for longer than a month',
    faults({}, { idempotency: { keep: '31d' } }),
    /^\$\.routes\[0\]\.idempotency\.keep: must be from "1m" to "30d"/,
  ],
  [
    'an idempotency key in a header of another meaning',
    faults({}, { idempotency: { header: 'Authorization' } }),
    /^\$\.routes\[0\]\.idempotency\.header: must not be "Authorization"/,
  ],
  ...['Cookie', 'Host', 'Content-Type', 'Content-Language', 'Connection', 'TE', 'If-Match', 'Accept'].map(
    (header): Case => [
      `an idempotency key in ${header}`,
      faults({}, { idempotency: { header } }),
      new RegExp(`^\\$\\.routes\\[0\\]\\.idempotency\\.header: must not be "${header}"`),
    ],
  ),
  [
    'a purpose in two lines',
    faults({ maintenance: { purpose: 'a\nb' } }),
    /^\$\.maintenance\.purpose: must be one line/,
  ],
  [
    'a header that injects another',
    faults({ responseHeaders: { contentSecurityPolicy: 'a\r\nb: c' } }),
    /^\$\.responseHeaders\.contentSecurityPolicy: must be one line/,
  ],
  [
    'a shorter Strict-Transport-Security',
    faults({ responseHeaders: { strictTransportSecurity: { maxAgeSeconds: 31535999 } } }),
    /maxAgeSeconds: must be between/,
  ],
  [
    'the Strict-Transport-Security of one route, which browsers take for the whole host',
    faults({}, { responseHeaders: { strictTransportSecurity: { maxAgeSeconds: 63072000 } } }),
    /strictTransportSecurity: is not a known key/,
  ],
  [
    'a mandatory header',
    faults({ responseHeaders: { xFrameOptions: 'SAMEORIGIN' } }),
    /xFrameOptions: is not a known key/,
  ],
  [
    'a weaker policy',
    faults({ responseHeaders: { referrerPolicy: 'unsafe-url' } }),
    /referrerPolicy: must be/,
  ],
]
for (const [what, found, expected] of cases) {
  test(`the file must not have ${what}`, () => {
    assert.equal(found.length, 1, found.join('\n'))
    assert.match(String(found[0]), expected)
  })
}

test('every example in docs/operate/routes.md is good', () => {
  const text = readFileSync(new URL('../../../docs/operate/routes.md', import.meta.url), 'utf8')
  const examples = [...text.matchAll(/```json\n(.*?)```/gs)].map(([, json]) => JSON.parse(String(json)))
  assert.ok(examples.length >= 3)
  for (const example of examples) {
    const isRow = 'path' in example
    const found = faults(isRow ? {} : example, isRow ? example : {})
    assert.deepEqual(found, [], JSON.stringify(example))
  }
})

test('a route has the maintenance and the headers of the file, unless it has its own', () => {
  const { value } = parseGatewayFile(
    'gateway.json',
    JSON.stringify({
      maintenance: { purpose: 'all' },
      responseHeaders: { referrerPolicy: 'no-referrer', crossOriginOpenerPolicy: 'same-origin' },
      routes: [
        { path: '/a', auth: ['none'] },
        {
          path: '/b',
          auth: ['none'],
          maintenance: { purpose: 'b' },
          responseHeaders: { referrerPolicy: 'same-origin' },
        },
      ],
    }),
  )
  const [a, b] = value?.routes ?? []
  const closed = [a, b].map((route) => route?.screening?.maintenance?.refusal.detail)
  assert.deepEqual(closed, ['all', 'b'])
  assert.match(
    String(a?.responseLines),
    /Referrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n$/,
  )
  assert.match(
    String(b?.responseLines),
    /Referrer-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n$/,
  )
})
