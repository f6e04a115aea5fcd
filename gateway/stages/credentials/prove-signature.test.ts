import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { calculateJwkThumbprint } from 'jose'
import { type ReplayFault, ReplayMemory } from '../../auth/replay.ts'
import { ClientKeys } from '../../auth/signatures/client-keys.ts'
import { SIGNATURE_LIFETIME_MS } from '../../auth/signatures/presented-signatures.ts'
import { digestOf, signBytes, signMessage } from '../../auth/signatures/signed-request.test-support.ts'
import { FairTurns } from '../../auth/tokens/fair-turns.ts'
import { freshKey, signingKey } from '../../auth/tokens/issuer.test-support.ts'
import { profileOf, type SignatureProfile } from '../../config/clients/signature-profiles.ts'
import type { IdempotencyTerms } from '../../config/settings.ts'
import { BodyRoom } from '../../edge/bodies/body-room.ts'
import type { Gateway } from '../../gateway.ts'
import { keysOf } from '../../principal.ts'
import { authenticate } from '../authenticate.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute, NOW_MS } from '../stage.test-support.ts'
import { proveSigner } from './prove-signature.ts'

const KEY = freshKey('one')
const PARAMS = `;created=${NOW_MS / 1000};keyid="one";tag="fapi-2-request"`
const COMPONENTS = [
  ['"@method"', 'GET'],
  ['"@target-uri"', 'https://api.example/api/x'],
] as const
const SIGNED = signMessage(COMPONENTS, { key: KEY.privateKey, algorithm: 'ES256', params: PARAMS })

interface Terms {
  readonly jwks?: readonly object[] | undefined
  readonly replay?: ReplayFault | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly publicUrls?: readonly string[]
  /** Authority of an absolute target. */
  readonly authority?: string
  readonly viaProxy?: boolean
  readonly profile?: SignatureProfile
  readonly blockedSeconds?: number
  readonly body?: Readable
  readonly clock?: { readonly nowMs: number }
  readonly memory?: ReplayMemory
  readonly thief?: boolean
  readonly isProved?: boolean
  readonly keyHeader?: string
  readonly turns?: FairTurns
}

async function outcomeOf({
  jwks = [KEY.jwk],
  replay,
  headers,
  publicUrls,
  authority,
  viaProxy,
  profile = profileOf({ profile: 'fapi-2' }),
  blockedSeconds,
  body,
  clock = { nowMs: NOW_MS },
  memory,
  thief,
  isProved,
  keyHeader,
  turns = new FairTurns(() => 0),
}: Terms = {}) {
  const signers = new ClientKeys({ clock: () => NOW_MS, onFault: () => {} })
  const principal = makePrincipal({
    method: 'signature',
    subject: undefined,
    client: 'bank',
    ...keysOf('client:bank'),
  })
  const keys = jwks.length === 0 ? { uri: 'http://127.0.0.1:1/' } : { uri: 'file', document: { keys: jwks } }
  const bank = { principal, profile, keys }
  const other = { ...bank, principal: makePrincipal({ ...principal, client: 'thief' }) }
  signers.replace(new Map([['bank', bank], ...(thief === true ? [['thief', other] as const] : [])]))
  const failed: string[] = []
  const { gateway, measured } = makeGateway({
    signers,
    verifier: { turns },
    settings: { dpop: { publicUrls: publicUrls ?? ['https://api.example'] } } as never,
    acceptedSignatures: memory ?? { take: () => replay, maintain: () => {} },
    clock: () => clock.nowMs,
    load: { bodyRoom: new BodyRoom() },
    throttle: { blockedSeconds: () => blockedSeconds, failed: (key: string) => failed.push(key) },
  } as object as Partial<Gateway> as never)
  const { exchange } = makeExchange({ headers: { ...SIGNED, ...headers } })
  Object.assign(exchange, { viaTrustedProxy: viaProxy === true, host: authority ?? exchange.headers.host })
  if (body !== undefined) Object.assign(exchange.req, { body })
  const idempotency = keyHeader === undefined ? undefined : ({ header: keyHeader } as IdempotencyTerms)
  exchange.route = makeRoute({ auth: new Set(['signature']), idempotency })
  if (isProved === true) exchange.principal = principal
  const refused = await (isProved === true ? proveSigner(gateway, exchange) : authenticate(gateway, exchange))
  signers.stop()
  const { principal: caller, signed } = exchange
  return { refused, client: caller?.client, signed, measured, guesses: failed.length }
}

const counted = (outcome: string) => `gateway_auth_decisions_total signature ${outcome}`

test('a signed request proves its client, and is no guess', async () => {
  const { refused, client, measured, guesses } = await outcomeOf()
  assert.deepEqual([refused, client, measured, guesses], [undefined, 'bank', [counted('accepted')], 0])
})

test('a good signature is recorded with all that its base needs besides the message', async () => {
  const { signed } = await outcomeOf({ publicUrls: ['https://other.example', 'https://api.example/'] })
  const { value = '', ...signature } = signed?.signature ?? {}
  assert.deepEqual(signature, {
    label: 'sig',
    keyId: 'one',
    thumbprint: await calculateJwkThumbprint(KEY.jwk),
    algorithm: 'ES256',
    publicUrl: 'https://api.example',
    digest: undefined,
    input: `("@method" "@target-uri")${PARAMS}`,
  })
  assert.equal(SIGNED.Signature, `sig=:${value}:`)
  for (const terms of [{ replay: 'replayed' }, { headers: { 'X-Y': 'z', Host: 'other' } }] as const)
    assert.equal((await outcomeOf(terms)).signed, undefined)
})

test('a request is not judged while the keys of its client have not been fetched', async () => {
  const { refused, client, measured } = await outcomeOf({ jwks: [] })
  assert.deepEqual([refused?.code, refused?.status, client], ['keys_unavailable', 503, undefined])
  assert.deepEqual(refused?.headers, ['Retry-After', '5'])
  assert.deepEqual(measured, [counted('keys_unavailable')])
})

test('a request is refused where its signature cannot be remembered', async () => {
  for (const replay of ['full', 'crowded', 'unwritable', 'away'] as const) {
    const { refused } = await outcomeOf({ replay })
    assert.deepEqual([refused?.code, refused?.status], ['proofs_unavailable', 503])
  }
  const { refused, client } = await outcomeOf({ replay: 'replayed' })
  assert.deepEqual([refused?.code, refused?.status, client], ['invalid_signature', 401, 'bank'])
})

test('a message with two good signatures is not accepted again with one of them alone', async () => {
  for (const nonces of ['', ';nonce="n"']) {
    const memory = new ReplayMemory({ lifetimeMs: SIGNATURE_LIFETIME_MS, clock: () => NOW_MS })
    const by = { key: KEY.privateKey, algorithm: 'ES256', params: PARAMS + nonces } as const
    const one = signMessage(COMPONENTS, by)
    const other = signMessage(COMPONENTS, { ...by, label: 'other' })
    const both = {
      'Signature-Input': `${one['Signature-Input']}, ${other['Signature-Input']}`,
      Signature: `${one.Signature}, ${other.Signature}`,
    }
    assert.equal((await outcomeOf({ headers: both, memory })).refused, undefined)
    for (const headers of [one, other, both])
      assert.equal((await outcomeOf({ headers, memory })).refused?.code, 'invalid_signature')
  }
})

test('no signature from an address that guesses is verified, and a wrong key is a guess', async () => {
  const { refused, measured } = await outcomeOf({ blockedSeconds: 7 })
  assert.deepEqual([refused?.code, measured], ['too_many_failures', [counted('throttled')]])
  assert.equal(refused?.client, 'bank')
  const other = await outcomeOf({ jwks: [{ ...freshKey('one').jwk }] })
  assert.deepEqual([other.refused?.code, other.guesses], ['invalid_signature', 1])
  assert.equal(other.refused?.client, 'bank')
})

test('a payment that is sent again with a slow body is never accepted twice', async () => {
  const payment = Buffer.from('{"amount":1}')
  const rsa = signingKey('PS256', { kid: 'one' })
  const claims = { iat: NOW_MS / 1000, iss: 'a', tan: 'openbanking.org.uk' }
  const named = Object.entries(claims).map(([name, value]) => [`http://openbanking.org.uk/${name}`, value])
  const header = { alg: 'PS256', kid: 'one', crit: named.map(([name]) => name), ...Object.fromEntries(named) }
  const head = Buffer.from(JSON.stringify(header)).toString('base64url')
  const value = signBytes(`${head}.${payment.toString('base64url')}`, rsa.privateKey, 'PS256')
  const headers = { 'x-jws-signature': `${head}..${value.toString('base64url')}` }
  const clock = { nowMs: NOW_MS }
  const memory = new ReplayMemory({ lifetimeMs: SIGNATURE_LIFETIME_MS, clock: () => clock.nowMs })
  let inTurns = 0
  const turns = new FairTurns(() => 0)
  const take = turns.take.bind(turns)
  turns.take = (...work) => {
    inTurns++
    return take(...work)
  }
  const sent = (waitMs: number) => {
    const body = Readable.from(
      (async function* () {
        clock.nowMs += waitMs
        yield payment
      })(),
    )
    const profile = profileOf({ profile: 'uk-jws', iss: 'a' })
    return outcomeOf({ jwks: [rsa.jwk], profile, headers, body, clock, memory, turns })
  }
  const { refused, signed } = await sent(0)
  assert.equal(inTurns, 2, 'head and body')
  assert.equal(refused, undefined)
  assert.deepEqual(signed?.signature, {
    label: 'x-jws-signature',
    keyId: 'one',
    thumbprint: await calculateJwkThumbprint(rsa.jwk),
    algorithm: 'PS256',
    publicUrl: '',
    digest: digestOf(payment),
    input: head,
    value: value.toString('base64'),
  })
  clock.nowMs = NOW_MS + 299_000
  assert.equal((await sent(SIGNATURE_LIFETIME_MS - 299_000)).refused?.code, 'invalid_signature')
})

test('a client whose key another client publishes is accepted where a token says who it is', async () => {
  const { refused, client } = await outcomeOf({ thief: true, isProved: true })
  assert.deepEqual([refused, client], [undefined, 'bank'])
  const alone = await outcomeOf({ thief: true })
  assert.equal(alone.refused?.cause, '"bank" and "thief" publish the same key')
})

test('a row with idempotency requires a signature that covers the idempotency key, if one is sent', async () => {
  const key = { 'X-Key': 'one' }
  const { refused } = await outcomeOf({ headers: key, keyHeader: 'x-key' })
  assert.deepEqual(
    [refused?.code, refused?.detail],
    ['invalid_signature', 'The signature must cover "x-key".'],
  )
  assert.match(refused?.headers.join() ?? '', /Accept-Signature,sig=\("@method" "@target-uri" "x-key"\)/)
  for (const terms of [{ headers: key }, { headers: key, keyHeader: 'other' }, { keyHeader: 'x-key' }])
    assert.equal((await outcomeOf(terms)).refused, undefined)
  const by = { key: KEY.privateKey, algorithm: 'ES256', params: PARAMS } as const
  const signed = signMessage([...COMPONENTS, ['"x-key"', 'one']], by)
  assert.equal((await outcomeOf({ headers: { ...key, ...signed }, keyHeader: 'x-key' })).refused, undefined)
  for (const changed of [{ 'X-Key': 'two' }, {}]) {
    const outcome = await outcomeOf({ headers: { ...changed, ...signed }, keyHeader: 'x-key' })
    assert.equal(outcome.refused?.code, 'invalid_signature')
  }
})

test('a signed header that Connection names counts as missing, unless the gateway reads it', async () => {
  const by = { key: KEY.privateKey, algorithm: 'ES256', params: PARAMS } as const
  const signed = { 'X-Note': 'a', ...signMessage([...COMPONENTS, ['"x-note"', 'a']], by) }
  assert.equal((await outcomeOf({ headers: signed })).refused, undefined)
  for (const Connection of ['x-note', 'close, X-Note ', 'signature, x-note'])
    assert.equal((await outcomeOf({ headers: { ...signed, Connection } })).refused?.code, 'invalid_signature')
  for (const Connection of ['close', 'x-other', 'te', 'signature'])
    assert.equal((await outcomeOf({ headers: { ...signed, Connection } })).refused, undefined)
  for (const name of ['Authorization', 'X-Key']) {
    const headers = { [name]: 'Bearer a', Connection: name }
    const { refused } = await outcomeOf({ headers, keyHeader: 'x-key' })
    assert.equal(refused?.detail, `The signature must cover "${name.toLowerCase()}".`)
  }
})

test('a signature waits for its turn where others have used up the time, as a new token does', async () => {
  let nowMs = 0
  const turns = new FairTurns(() => (nowMs += 5))
  turns.take({ address: '192.0.2.9', closed: false }, () => {})
  let accepted = 0
  const memory = { take: () => void accepted++, maintain: () => {} } as object as ReplayMemory
  const pending = outcomeOf({ turns, memory })
  assert.equal(accepted, 0)
  assert.equal((await pending).client, 'bank')
  assert.equal(accepted, 1)
})

test('Host must be that of a public address, as HTTP compares it, but not behind a trusted proxy', async () => {
  const codeOf = async (terms: Terms) => (await outcomeOf(terms)).refused?.code
  assert.equal(await codeOf({ headers: { Host: 'API.example:443' } }), undefined)
  assert.equal(await codeOf({ headers: { Host: 'api.example:80' } }), 'invalid_signature')
  assert.equal(await codeOf({ headers: { Host: '10.0.0.1:8080' } }), 'invalid_signature')
  assert.equal(await codeOf({ headers: { Host: '10.0.0.1:8080' }, viaProxy: true }), undefined)
  const publicUrls = ['https://other.example', 'https://api.example/']
  assert.equal(await codeOf({ publicUrls }), undefined)
  // The authority of the target replaces Host, but the client may have signed only Host.
  assert.equal(await codeOf({ publicUrls, authority: 'API.example' }), undefined)
  const terms = { publicUrls, authority: 'api.example', headers: { Host: 'other.example' } }
  assert.equal(await codeOf(terms), 'invalid_signature')
  assert.equal(await codeOf({ publicUrls: ['https://api.example/gateway'] }), 'invalid_signature')
  assert.equal(await codeOf({ publicUrls: ['https://other.example'] }), 'invalid_signature')
})

test('a profile has refusals of its own: those of uk-jws are 400, and ask for nothing in WWW-Authenticate', async () => {
  const headers = { 'x-jws-signature': 'a..b', Signature: 'keyId="a"', 'Signature-Input': '' }
  const refusedBy = async (profile: SignatureProfile, more: Terms) => {
    const { refused } = await outcomeOf({ profile, ...more })
    return [refused?.status, refused?.code, refused?.headers.slice(0, 2).join(': ')]
  }
  const uk = profileOf({ profile: 'uk-jws', iss: 'a' })
  assert.deepEqual(await refusedBy(uk, {}), [400, 'missing_signature', ''])
  assert.deepEqual(await refusedBy(uk, { headers }), [400, 'invalid_signature', ''])
  const berlin = profileOf({ profile: 'berlin-group' })
  const challenge = 'WWW-Authenticate: Signature realm="api", headers="digest x-request-id date"'
  assert.deepEqual(await refusedBy(berlin, {}), [401, 'missing_signature', challenge])
})
