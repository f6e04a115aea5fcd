import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RFC9068, tokenDialect } from '../../config/issuers/token-dialects.ts'
import { KeySet } from '../keys/jwks.ts'
import type { TrustedIssuer } from '../tokens/issuers.ts'
import { type IntrospectionOutcome, Introspector } from './introspector.ts'

const NOW_MS = 1_800_000_000_000
const NOW_SECONDS = NOW_MS / 1000
const CALLER = { address: '192.0.2.1', closed: false }

const ISSUER: TrustedIssuer = {
  issuer: 'https://login.example',
  audiences: ['https://bank.example/api'],
  tokens: RFC9068,
  clockToleranceMs: 10_000,
  own: false,
  boundOnly: false,
  scopes: new Set(['accounts:read']),
  algorithms: new Set(['ES256']),
  keys: new KeySet({ uri: 'memory:', clock: () => NOW_MS, onFault: () => undefined }),
}

const ACTIVE = {
  active: true,
  token_type: 'Bearer',
  client_id: 'app-1',
  sub: 'alice',
  aud: 'https://bank.example/api',
  scope: 'accounts:read admin',
  iat: NOW_SECONDS - 60,
  exp: NOW_SECONDS + 3600,
}

type Answer = object | Error | { readonly statusCode: number; readonly text: string }

function harness(answer: Answer | (() => Answer | Promise<Answer>), changes: Partial<TrustedIssuer> = {}) {
  const state = { asked: [] as string[], nowMs: NOW_MS, steadyMs: 0, faults: [] as string[] }
  const outcomes: IntrospectionOutcome[] = []
  const introspector = new Introspector(
    { ...ISSUER, ...changes },
    {
      settings: {
        url: 'https://login.example/introspect',
        clientId: 'countersign',
        clientSecretFile: 'secret',
        for: 'opaque',
        cacheMs: 30_000,
        negativeCacheMs: 5_000,
        timeoutMs: 2000,
        signed: false,
      },
      clock: () => state.nowMs,
      steadyClock: () => state.steadyMs + Math.max(0, state.nowMs - NOW_MS),
      count: (outcome) => outcomes.push(outcome),
      onFault: (cause) => state.faults.push(cause),
      ask: async (token) => {
        state.asked.push(token)
        const given = await (typeof answer === 'function' ? answer() : answer)
        if (given instanceof Error) throw given
        const { statusCode, text } =
          'statusCode' in given
            ? (given as { statusCode: number; text: string })
            : { statusCode: 200, text: JSON.stringify(given) }
        return { statusCode, headers: { 'content-type': 'application/json' }, body: Buffer.from(text) }
      },
    },
  )
  return { introspector, state, outcomes }
}

describe('an introspector', () => {
  it('names user, client and permitted scopes of an active token', async () => {
    const { introspector } = harness(ACTIVE)
    const { principal, issuer } = await introspector.verify('opaque-1', CALLER)
    assert.equal(issuer, 'https://login.example')
    assert.equal(principal?.subject, 'https://login.example#alice')
    assert.equal(principal?.client, 'https://login.example#app-1')
    assert.equal(principal?.scope, 'accounts:read')
  })

  it('reads the names of RFC 7662 beside those of the dialect', async () => {
    const okta = tokenDialect('okta')
    const { introspector } = harness(ACTIVE, { tokens: okta })
    const { principal } = await introspector.verify('opaque-1', CALLER)
    assert.equal(principal?.client, 'https://login.example#app-1')
    assert.equal(principal?.scope, 'accounts:read')
  })

  it('takes a token without a user for a token of its client', async () => {
    const { sub: _, ...machine } = ACTIVE
    const { introspector } = harness(machine)
    const { principal } = await introspector.verify('opaque-1', CALLER)
    assert.deepEqual([principal?.subject, principal?.client], [undefined, 'https://login.example#app-1'])
  })

  for (const [title, changes, cause] of [
    ['another issuer', { iss: 'https://other.example' }, /iss .* is not https:\/\/login.example/],
    ['another audience', { aud: ['https://other.example/api'] }, /does not name/],
    ['no audience', { aud: undefined }, /aud nothing|aud .* neither/],
    ['an expired token', { exp: NOW_SECONDS - 11 }, /exp was 11 s ago/],
    ['a token of the future', { nbf: NOW_SECONDS + 11 }, /nbf is 11 s ahead/],
    ['a refresh token', { token_type: 'refresh_token' }, /token_type "refresh_token" is no access token/],
    ['a token of an unknown kind', { token_type: undefined }, /no token_type/],
    ['a binding that cannot be confirmed', { cnf: { jwk: {} } }, /cannot be confirmed/],
    ['no client and no user', { sub: undefined, client_id: undefined }, /sub .* is no id|sub nothing/],
  ] as const) {
    it(`refuses an answer about ${title}`, async () => {
      const { introspector, outcomes } = harness({ ...ACTIVE, ...changes })
      const { fault } = await introspector.verify('opaque-1', CALLER)
      assert.match(fault?.cause ?? '', cause)
      assert.deepEqual(outcomes, ['invalid'])
      assert.equal(fault?.description.includes('opaque-1'), false)
    })
  }

  it('tells the binding of a token', async () => {
    const jkt = 'A'.repeat(43)
    const { introspector } = harness({ ...ACTIVE, token_type: 'DPoP', cnf: { jkt } })
    assert.equal((await introspector.verify('opaque-1', CALLER)).binding?.jkt, jkt)
    const strict = harness(ACTIVE, { boundOnly: true }).introspector
    assert.match((await strict.verify('opaque-1', CALLER)).fault?.cause ?? '', /bound tokens only/)
  })

  it('asks once about a token that many requests bring at the same time', async () => {
    const { introspector, state } = harness(ACTIVE)
    const all = await Promise.all(Array.from({ length: 50 }, () => introspector.verify('opaque-1', CALLER)))
    assert.equal(state.asked.length, 1)
    assert.equal(new Set(all.map(({ principal }) => principal)).size, 1)
  })

  it('believes an answer for the time of the cache and never beyond exp', async () => {
    const { introspector, state } = harness({ ...ACTIVE, exp: NOW_SECONDS + 20 })
    await introspector.verify('opaque-1', CALLER)
    state.nowMs += 19_999
    await introspector.verify('opaque-1', CALLER)
    assert.equal(state.asked.length, 1)
    state.nowMs += 1
    await introspector.verify('opaque-1', CALLER)
    assert.equal(state.asked.length, 2)
  })

  it('believes no answer longer because the wall clock was set back', async () => {
    const { introspector, state } = harness(ACTIVE)
    await introspector.verify('opaque-1', CALLER)
    state.nowMs -= 3_600_000
    state.steadyMs += 30_000
    await introspector.verify('opaque-1', CALLER)
    assert.equal(state.asked.length, 2)
  })

  it('believes an answer without exp, or whose exp is null, for five seconds', async () => {
    for (const times of [
      { exp: undefined, iat: undefined },
      { exp: null, iat: NOW_SECONDS - 3600 },
    ]) {
      const { introspector, state } = harness({ ...ACTIVE, ...times })
      assert.notEqual((await introspector.verify('opaque-1', CALLER)).principal, undefined)
      state.nowMs += 5_000
      await introspector.verify('opaque-1', CALLER)
      assert.equal(state.asked.length, 2)
    }
  })

  it('counts a token that is not active as a guess once, and does not ask again for a short time', async () => {
    const { introspector, state, outcomes } = harness({ active: false })
    assert.equal((await introspector.verify('opaque-1', CALLER)).fault?.reason, 'invalid')
    assert.equal((await introspector.verify('opaque-1', CALLER)).fault?.reason, 'inactive')
    state.nowMs += 5_000
    assert.equal((await introspector.verify('opaque-1', CALLER)).fault?.reason, 'invalid')
    assert.deepEqual(outcomes, ['inactive', 'inactive'])
  })

  it('counts a token that was active before as no guess', async () => {
    let answer: Answer = ACTIVE
    const { introspector, state } = harness(() => answer)
    assert.equal((await introspector.verify('opaque-1', CALLER)).fault, undefined)
    answer = { active: false }
    for (const laterMs of [30_000, 5_000]) {
      state.nowMs += laterMs
      assert.equal((await introspector.verify('opaque-1', CALLER)).fault?.reason, 'inactive')
    }
    assert.equal(state.asked.length, 3)
  })

  for (const [title, answer] of [
    ['a broken connection', new Error('socket hang up')],
    ['status 500', { statusCode: 500, text: '{"active":true}' }],
    ['status 401, so that the gateway is not let in', { statusCode: 401, text: '{}' }],
    ['status 400 for the client', { statusCode: 400, text: '{"error":"invalid_client"}' }],
    ['no JSON', { statusCode: 200, text: '<html>' }],
    ['JSON of another kind', { statusCode: 200, text: '[true]' }],
    ['a member twice', { statusCode: 200, text: JSON.stringify(ACTIVE).replace('{', '{"active":false,') }],
    [
      'a member twice deeper down',
      { statusCode: 200, text: JSON.stringify(ACTIVE).replace('{', '{"cnf":{"jkt":"a","jkt":"b"},') },
    ],
    ['two errors', { statusCode: 400, text: '{"error":"x","error":"unsupported_token_type"}' }],
    ['active as a text', { ...ACTIVE, active: 'true' }],
  ] as const) {
    it(`says that the endpoint is away after ${title}`, async () => {
      const { introspector, outcomes, state } = harness(answer)
      const { fault } = await introspector.verify('opaque-1', CALLER)
      assert.equal(fault?.reason, 'introspection_unavailable')
      assert.deepEqual(outcomes, ['failed'])
      assert.equal(state.faults.length, 1)
    })
  }

  it('refuses a token of a kind that the endpoint does not know', async () => {
    const { introspector, state } = harness({ statusCode: 400, text: '{"error":"unsupported_token_type"}' })
    assert.equal((await introspector.verify('a.b.c', CALLER)).fault?.reason, 'invalid')
    assert.equal((await introspector.verify('a.b.c', CALLER)).fault?.reason, 'inactive')
    assert.equal(state.asked.length, 1)
  })

  it('pauses after five failures in a row, then tries once, and keeps earlier answers', async () => {
    let answer: Answer = ACTIVE
    const { introspector, state, outcomes } = harness(() => answer)
    await introspector.verify('good', CALLER)
    answer = new Error('gone')
    // Questions that are under way together do not make the pause longer.
    await Promise.all(Array.from({ length: 12 }, (_, n) => introspector.verify(`t${n}`, CALLER)))
    assert.equal((await introspector.verify('next', CALLER)).fault?.reason, 'introspection_unavailable')
    assert.equal(outcomes.at(-1), 'breaker_open')
    assert.notEqual((await introspector.verify('good', CALLER)).principal, undefined)
    answer = ACTIVE
    state.steadyMs += 1_000
    const trials = await Promise.all(['t20', 't21'].map((one) => introspector.verify(one, CALLER)))
    assert.deepEqual(
      trials.map(({ fault }) => fault?.reason),
      [undefined, 'introspection_unavailable'],
    )
    assert.notEqual((await introspector.verify('t22', CALLER)).principal, undefined)
  })

  for (const statusCode of [400, 403, 413, 414, 422, 431]) {
    it(`does not pause for a token that the endpoint refuses by status ${statusCode}`, async () => {
      let answer: Answer = { statusCode, text: '{}' }
      const { introspector, state } = harness(() => answer)
      for (let n = 0; n < 10; n++) {
        const { fault } = await introspector.verify(`odd-${n}`, CALLER)
        assert.equal(fault?.reason, 'introspection_unavailable')
      }
      assert.equal(state.faults.length, 1)
      answer = ACTIVE
      assert.notEqual((await introspector.verify('good', CALLER)).principal, undefined)
    })
  }

  it('pauses for all networks only once questions of two have failed', async () => {
    let answer: Answer = new Error('gone')
    const { introspector, state } = harness(() => answer)
    const other = { address: '198.51.100.7', closed: false }
    for (let n = 0; n < 6; n++) await introspector.verify(`odd-${n}`, CALLER)
    assert.equal(state.asked.length, 5)
    await introspector.verify('of-other', other)
    await introspector.verify('of-third', { address: '203.0.113.9', closed: false })
    assert.equal(state.asked.length, 6)
    state.steadyMs += 30_000
    answer = ACTIVE
    await introspector.verify('back', other)
    answer = new Error('crash')
    for (let n = 0; n < 6; n++) await introspector.verify(`odd-again-${n}`, CALLER)
    answer = ACTIVE
    assert.notEqual((await introspector.verify('good', other)).principal, undefined)
    assert.notEqual((await introspector.verify('good-2', CALLER)).principal, undefined)
  })

  it('makes no session of a jti that is the token itself', async () => {
    const { introspector } = harness({ ...ACTIVE, jti: 'opaque-1' })
    assert.equal((await introspector.verify('opaque-1', CALLER)).principal?.session, undefined)
  })

  it('puts no token into names or causes, even if the answer repeats it', async () => {
    const token = 'opaque-secret-1'
    for (const claim of ['iss', 'aud', 'token_type', 'sub', 'client_id', 'sid', 'scope', 'cnf', 'exp']) {
      for (const value of [token, `x ${token}`, [token], { jkt: token }]) {
        const { introspector } = harness({ ...ACTIVE, [claim]: value })
        const { fault } = await introspector.verify(token, CALLER)
        assert.ok(fault, claim)
        assert.doesNotMatch(fault.cause, /opaque/, claim)
      }
    }
    const { introspector } = harness({ ...ACTIVE, access_token: token, acr: token })
    const { principal } = await introspector.verify(token, CALLER)
    assert.deepEqual([principal?.subject, principal?.acr], ['https://login.example#alice', undefined])
  })

  it('reads an answer in which the letters of a very short token occur', async () => {
    for (const token of ['a', 'er', 'app']) {
      const { introspector } = harness({ ...ACTIVE, jti: token })
      const { principal } = await introspector.verify(token, CALLER)
      assert.deepEqual(
        [principal?.subject, principal?.session],
        ['https://login.example#alice', undefined],
        token,
      )
    }
  })

  it('needs a token_type unless a required claim says that the token is an access token', async () => {
    const answer = { ...ACTIVE, token_type: undefined, kind: 'app', use: 'access' }
    const of = async (require: Record<string, string>) => {
      const { introspector } = harness(answer, { tokens: tokenDialect({ require }) })
      return (await introspector.verify('opaque-1', CALLER)).fault?.cause
    }
    assert.equal(await of({ use: 'access' }), undefined)
    assert.match((await of({ kind: 'app' })) ?? '', /^the answer has no token_type/)
  })

  it('asks at most 16 questions of one network at a time, and leaves room for the others', async () => {
    const gate = Promise.withResolvers<Answer>()
    const { introspector, state, outcomes } = harness(() => gate.promise)
    const flood = Array.from({ length: 100 }, (_, n) => introspector.verify(`guess-${n}`, CALLER))
    const other = introspector.verify('good', { address: '198.51.100.7', closed: false })
    assert.equal(state.asked.length, 17)
    gate.resolve(ACTIVE)
    assert.notEqual((await other).principal, undefined)
    for (const waited of await Promise.all(flood)) assert.notEqual(waited.principal, undefined)
    assert.equal(state.asked.length, 101)
    assert.equal(outcomes.includes('too_many'), false)
  })

  it('lets the networks that wait ask in turn', async () => {
    const gates: PromiseWithResolvers<Answer>[] = []
    const { introspector, state } = harness(() => {
      const gate = Promise.withResolvers<Answer>()
      gates.push(gate)
      return gate.promise
    })
    const networks = [1, 2, 3, 4, 5, 6].map((n) => ({ address: `198.51.10${n}.7`, closed: false }))
    const all = networks.flatMap((caller) =>
      Array.from({ length: 20 }, (_, n) => introspector.verify(`${caller.address}-${n}`, caller)),
    )
    assert.equal(state.asked.length, 64)
    for (let n = 0; n < 120; n++) {
      gates[n]?.resolve(ACTIVE)
      await new Promise(setImmediate)
      assert.ok(gates.length <= n + 65)
    }
    await Promise.all(all)
    assert.equal(state.asked.length, 120)
    const sixth = state.asked.findIndex((token) => token.startsWith('198.51.106.7'))
    assert.ok(sixth < 80, `the last network waited for ${sixth} questions`)
  })

  it('lets at most 256 tokens of one network wait', async () => {
    const gate = Promise.withResolvers<Answer>()
    const { introspector, outcomes } = harness(() => gate.promise)
    const all = Array.from({ length: 1000 }, (_, n) => introspector.verify(`t${n}`, CALLER))
    await new Promise(setImmediate)
    assert.equal(outcomes.filter((one) => one === 'too_many').length, 1000 - 16 - 256)
    gate.resolve(ACTIVE)
    await Promise.all(all)
  })

  it('does not ask for a client that has gone or has waited too long, and counts only the latter', async () => {
    const gate = Promise.withResolvers<Answer>()
    const { introspector, state, outcomes } = harness(() => gate.promise)
    const gone = { address: CALLER.address, closed: false }
    const first = Array.from({ length: 16 }, (_, n) => introspector.verify(`first-${n}`, CALLER))
    const left = introspector.verify('left', gone)
    const late = introspector.verify('late', CALLER)
    gone.closed = true
    state.steadyMs += 60_000
    gate.resolve(ACTIVE)
    await Promise.all(first)
    assert.equal((await left).fault?.reason, 'introspection_unavailable')
    assert.equal((await late).fault?.reason, 'introspection_unavailable')
    assert.equal(state.asked.length, 16)
    assert.equal(outcomes.filter((one) => one === 'too_many').length, 1, 'the one that is late')
  })
})
