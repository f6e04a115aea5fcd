import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { RFC9068, tokenDialect } from '../../config/issuers/token-dialects.ts'
import type { IntrospectionSettings, IssuerSettings } from '../../config/settings.ts'
import { checkedField } from '../../edge/syntax/field.ts'
import { answerJson, freshKey, NOW_MS, serve } from './issuer.test-support.ts'
import { type TrustedIssuer, type TrustOptions, trustedIssuers, usesKeys } from './issuers.ts'

const OWN: IssuerSettings & {
  readonly scopes: readonly string[]
} = {
  scopes: ['accounts:read'],
  issuer: 'http://localhost:8080',
  jwksUri: 'http://127.0.0.1:9/keys',
  audience: 'api',
  algorithms: ['ES256', 'RS256'],
  profile: undefined,
  tokens: RFC9068,
  clockToleranceMs: 10_000,
}
const ASKED: IntrospectionSettings = {
  url: 'http://127.0.0.1:9/introspect',
  clientId: 'countersign',
  clientSecretFile: 'secret',
  for: 'opaque',
  signed: false,
  cacheMs: 0,
  negativeCacheMs: 0,
  timeoutMs: 2000,
}

function options(
  sources: Partial<ReturnType<TrustOptions['sources']>> = {},
  onFault: TrustOptions['onFault'] = assert.fail,
): TrustOptions {
  const all = {
    upstream: [],
    upstreams: {},
    jwksMaxStaleMs: 86_400_000,
    upstreamSecret: undefined,
    ...sources,
  }
  return { clock: () => NOW_MS, onFault, sources: () => all }
}

test('our own issuer comes first, and only it gives our own names', () => {
  const partner = {
    ...OWN,
    issuer: 'https://a.example',
    audience: ['us', 'them'],
    profile: 'fapi' as const,
    tokens: tokenDialect('okta'),
    clockToleranceMs: 30_000,
  }
  const trusted = trustedIssuers({ ...OWN, issuers: [partner] }, options())
  assert.deepEqual(
    trusted.map(({ keys, introspection, introspector, nameSession, ...rest }) => rest),
    [
      {
        issuer: OWN.issuer,
        audiences: ['api'],
        tokens: RFC9068,
        clockToleranceMs: 10_000,
        own: true,
        others: ['https://a.example'],
        boundOnly: false,
        scopes: undefined,
        algorithms: new Set(['ES256', 'RS256']),
      },
      {
        issuer: 'https://a.example',
        audiences: ['us', 'them'],
        tokens: tokenDialect('okta'),
        clockToleranceMs: 30_000,
        own: false,
        boundOnly: true,
        scopes: new Set(['accounts:read']),
        algorithms: new Set(['ES256', 'RS256']),
      },
    ],
  )
})

test('the keys of each issuer are loaded from where it publishes them, and a fault names their URI', async (t) => {
  const ownSource = await serve(t, answerJson({ keys: [freshKey('own').jwk] }))
  const otherSource = await serve(t, (_request, response) => response.writeHead(503).end())
  const told = Promise.withResolvers<readonly [string, string]>()
  const trusted = trustedIssuers(
    {
      ...OWN,
      jwksUri: ownSource.uri,
      issuers: [{ ...OWN, issuer: 'https://a.example', jwksUri: otherSource.uri }],
    },
    options({}, (uri, cause) => told.resolve([uri, cause])),
  )
  for (const { keys } of trusted) keys.start()
  t.after(() => trusted.forEach(({ keys }) => void keys.stop()))
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

test('an issuer that is asked about all its tokens needs keys only for signed answers', () => {
  const needing = (asked: Pick<IntrospectionSettings, 'for' | 'signed'> | undefined) =>
    trustedIssuers(
      { ...OWN, ...(asked && { introspection: { ...ASKED, ...asked } }), issuers: [] },
      options(),
    ).map(usesKeys)
  assert.deepEqual(needing(undefined), [true])
  assert.deepEqual(needing({ for: 'opaque', signed: false }), [true])
  assert.deepEqual(needing({ for: 'all', signed: true }), [true])
  assert.deepEqual(needing({ for: 'all', signed: false }), [false])
})

test('once stopped, no issuer is asked again', async (t) => {
  const source = await serve(t, answerJson({ keys: [freshKey('own').jwk] }))
  const [own] = trustedIssuers(
    { ...OWN, jwksUri: source.uri, issuers: [] },
    options({}, () => undefined),
  )
  assert.ok(own)
  own.keys.stop()
  assert.equal(await own.keys.refresh(), 'failed')
  assert.equal(own.keys.loaded, false)
})

test('keys that cannot be fetched expire when the settings say so', async (t) => {
  const source = await serve(t, (_request, response) => response.writeHead(503).end())
  const time = { nowMs: NOW_MS }
  const [own] = trustedIssuers(
    { ...OWN, jwksUri: source.uri, issuers: [] },
    { ...options({ jwksMaxStaleMs: 3_600_000 }, () => undefined), clock: () => time.nowMs },
  )
  assert.ok(own)
  t.after(() => own.keys.stop())
  const kept = { uri: source.uri, document: { keys: [freshKey('own').jwk] } }
  for (const [ageMs, loaded] of [
    [0, true],
    [3_600_001, false],
  ] as const) {
    own.keys.restore({ ...kept, ageMs })
    time.nowMs += 10_000
    assert.equal(await own.keys.refresh(), 'failed')
    assert.equal(own.keys.loaded, loaded, String(ageMs))
  }
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
      jwksUri: upstream.uri,
      issuers: [{ ...OWN, issuer: 'https://a.example', jwksUri: elsewhere.uri }],
    },
    options({
      upstream: ['unix:/run/a.sock', new URL(upstream.uri).origin],
      upstreamSecret: checkedField('X-Gateway-Secret', 'the secret'),
    }),
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
    { ...OWN, jwksUri: down.uri, issuers: [] },
    options({
      upstream: [new URL(down.uri).origin, new URL(up.uri).origin],
      upstreamSecret: checkedField('x-proof', 'secret'),
    }),
  )
  t.after(() => trusted[0]?.keys.stop())
  assert.equal(await trusted[0]?.keys.refresh(), 'refreshed')
  assert.ok(trusted[0]?.keys.find('own'))
  assert.deepEqual(asked, [`${new URL(down.uri).pathname} secret`])
})

test('an unchanged issuer stays the same object, and a changed one keeps its keys only if their address stays', () => {
  const partner = { ...OWN, issuer: 'https://a.example' }
  const [own, other] = trustedIssuers({ ...OWN, issuers: [partner] }, options())
  const before = [own, other].flatMap((one) => (one === undefined ? [] : [one]))
  const next = (edited: Partial<IssuerSettings>) =>
    trustedIssuers({ ...OWN, issuers: [{ ...partner, ...edited }] }, options(), before)
  assert.equal(next({})[0], own)
  assert.equal(next({})[1], other)
  const [, narrower] = next({ audience: 'them' })
  assert.notEqual(narrower, other)
  assert.equal(narrower?.keys, other?.keys)
  const [, moved] = next({ jwksUri: 'http://127.0.0.1:9/other' })
  assert.notEqual(moved?.keys, other?.keys)
})

test('a target of an upstream group gets the proof too, and only others of its group are asked in its place', async (t) => {
  const asked: string[] = []
  const served = (name: string, respond: Parameters<typeof serve>[1]) =>
    serve(t, (request, response) => {
      asked.push(`${name} ${request.headers['x-proof']}`)
      respond(request, response)
    })
  const down = await served('down', (_request, response) => response.writeHead(503).end())
  const stranger = await served('stranger', answerJson({ keys: [freshKey('strange').jwk] }))
  const up = await served('up', answerJson({ keys: [freshKey('own').jwk] }))
  const origin = ({ uri }: { readonly uri: string }) => new URL(uri).origin
  const [own] = trustedIssuers(
    { ...OWN, jwksUri: down.uri, issuers: [] },
    options({
      upstream: [origin(stranger)],
      upstreams: { a: { targets: [origin(stranger)] }, b: { targets: [origin(down), origin(up)] } },
      upstreamSecret: checkedField('X-Proof', 'secret'),
    }),
  )
  t.after(() => own?.keys.stop())
  assert.equal(await own?.keys.refresh(), 'refreshed')
  assert.deepEqual(asked, ['down secret', 'up secret'])
})

test('an issuer that an edit replaced is not kept in memory', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as NodeJS.GCFunction
  const after = (before: readonly TrustedIssuer[], timeoutMs: number) =>
    trustedIssuers({ ...OWN, introspection: { ...ASKED, timeoutMs }, issuers: [] }, options(), before)
  let trusted = after([], 1000)
  const first = new WeakRef(trusted[0]?.introspector ?? assert.fail())
  for (const timeoutMs of [2000, 3000]) trusted = after(trusted, timeoutMs)
  await setImmediate()
  collect()
  assert.equal(first.deref(), undefined)
  assert.notEqual(trusted[0]?.introspector, undefined)
})
