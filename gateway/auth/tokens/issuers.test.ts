import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IssuerSettings } from '../../config/settings.ts'
import { checkedField } from '../../http/syntax/field.ts'
import { answerJson, freshKey, NOW_MS, serve } from './issuer.test-support.ts'
import { keysOf, trustedIssuers } from './issuers.ts'

const OWN: IssuerSettings & {
  readonly upstreams: readonly string[]
  readonly jwksMaxStaleMs: number
  readonly scopes: readonly string[]
} = {
  upstreams: [],
  jwksMaxStaleMs: 86_400_000,
  scopes: ['accounts:read'],
  issuer: 'http://localhost:8080',
  jwksUri: 'http://127.0.0.1:9/keys',
  audience: 'api',
  algorithms: ['ES256', 'RS256'],
  profile: undefined,
}

test('our own issuer comes first, and only it gives our own names', () => {
  const partner = { ...OWN, issuer: 'https://a.example', audience: 'us', profile: 'fapi' as const }
  const trusted = trustedIssuers({ ...OWN, issuers: [partner] }, { clock: Date.now, onFault: assert.fail })
  assert.deepEqual(
    trusted.map(({ keys, ...rest }) => rest),
    [
      {
        issuer: OWN.issuer,
        audience: 'api',
        own: true,
        boundOnly: false,
        scopes: undefined,
        algorithms: new Set(['ES256', 'RS256']),
      },
      {
        issuer: 'https://a.example',
        audience: 'us',
        own: false,
        boundOnly: true,
        scopes: new Set(['accounts:read']),
        algorithms: new Set(['ES256', 'RS256']),
      },
    ],
  )
})

test('the keys of each are loaded from where it publishes them, and faults say whose they are', async (t) => {
  const ownSource = await serve(t, answerJson({ keys: [freshKey('own').jwk] }))
  const otherSource = await serve(t, (_request, response) => response.writeHead(503).end())
  const told = Promise.withResolvers<readonly [string, string]>()
  const trusted = trustedIssuers(
    {
      ...OWN,
      jwksUri: ownSource.uri,
      issuers: [{ ...OWN, issuer: 'https://a.example', jwksUri: otherSource.uri }],
    },
    { clock: () => NOW_MS, onFault: (uri, cause) => told.resolve([uri, cause]) },
  )
  const keys = keysOf(trusted)
  keys.start()
  t.after(() => keys.stop())
  const [uri, cause] = await told.promise
  assert.equal(uri, otherSource.uri)
  assert.match(cause, /503/)
  await trusted[0]?.keys.refresh()
  assert.deepEqual(
    trusted.map(({ keys }) => [keys.loaded, keys.find('own') !== undefined]),
    [
      [true, true],
      [false, false],
    ],
  )
})

test('once stopped, no issuer is asked again', async (t) => {
  const source = await serve(t, answerJson({ keys: [freshKey('own').jwk] }))
  const [own] = trustedIssuers(
    { ...OWN, jwksUri: source.uri, issuers: [] },
    { clock: () => NOW_MS, onFault: () => undefined },
  )
  assert.ok(own)
  keysOf([own]).stop()
  assert.equal(await own.keys.refresh(), 'failed')
  assert.equal(own.keys.loaded, false)
})

test('the secret between gateway and upstream goes along only where an upstream itself publishes the keys', async (t) => {
  const seen: (string | undefined)[] = []
  const source = async () =>
    serve(t, (request, response) => {
      seen.push(String(request.headers['x-gateway-secret']))
      answerJson({ keys: [freshKey('k').jwk] })(request, response)
    })
  const upstream = await source()
  const elsewhere = await source()
  const trusted = trustedIssuers(
    {
      ...OWN,
      upstreams: ['unix:/run/a.sock', new URL(upstream.uri).origin],
      jwksUri: upstream.uri,
      issuers: [{ ...OWN, issuer: 'https://a.example', jwksUri: elsewhere.uri }],
    },
    { clock: Date.now, onFault: assert.fail, upstreamSecret: checkedField('X-Gateway-Secret', 'the secret') },
  )
  for (const { keys } of trusted) assert.equal(await keys.refresh(), 'refreshed')
  assert.deepEqual(seen, ['the secret', 'undefined'])
})

test('our own keys come from another upstream while the first is down, with the same proof', async (t) => {
  const down = await serve(t, (_request, response) => response.writeHead(503).end())
  const asked: (string | undefined)[] = []
  const up = await serve(t, (request, response) => {
    asked.push(`${request.url} ${request.headers['x-proof']}`)
    answerJson({ keys: [freshKey('own').jwk] })(request, response)
  })
  const trusted = trustedIssuers(
    {
      ...OWN,
      upstreams: [new URL(down.uri).origin, new URL(up.uri).origin],
      jwksUri: down.uri,
      issuers: [],
    },
    { clock: () => NOW_MS, onFault: assert.fail, upstreamSecret: checkedField('x-proof', 'secret') },
  )
  t.after(() => keysOf(trusted).stop())
  assert.equal(await trusted[0]?.keys.refresh(), 'refreshed')
  assert.ok(trusted[0]?.keys.find('own'))
  assert.deepEqual(asked, [`${new URL(down.uri).pathname} secret`])
})
