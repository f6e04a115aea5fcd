import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { RouteAuth } from '../config/settings.ts'
import type { Gateway } from '../gateway.ts'
import { authenticate } from './authenticate.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute } from './stage.test-support.ts'

interface Call {
  readonly auth: readonly RouteAuth[]
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: string
  readonly verifier?: object
}

function authenticated({ auth, headers = {}, query = '', verifier = {} }: Call) {
  const made = makeGateway({ verifier: verifier as object as Gateway['verifier'] })
  const { exchange } = makeExchange({ headers })
  exchange.route = makeRoute({ auth: new Set(auth) })
  exchange.query = query
  return { ...made, exchange, outcome: authenticate(made.gateway, exchange) }
}

const PRINCIPAL = makePrincipal()
const good = { fault: undefined, principal: PRINCIPAL, binding: undefined }
const bad = { fault: { reason: 'expired', description: 'It has expired', cause: 'exp' } }

describe('authenticate', () => {
  it('asks nobody where anyone may call', () => {
    const { outcome, exchange, measured } = authenticated({ auth: ['none'] })
    assert.deepEqual([outcome, exchange.principal, measured], [undefined, undefined, []])
  })

  it('says what is missing, in the terms of what the route accepts', () => {
    for (const [method, code, scheme] of [
      ['bearer', 'missing_token', 'Bearer'],
      ['hmac', 'missing_credentials', 'Webhook'],
      ['mtls', 'missing_credentials', 'Certificate'],
    ] as const) {
      const { outcome, measured } = authenticated({ auth: [method] })
      assert.ok(outcome !== undefined && 'code' in outcome)
      assert.equal(outcome.code, code)
      assert.ok(
        outcome.headers.some((value) => value.startsWith(scheme)),
        scheme,
      )
      assert.deepEqual(measured, [`gateway_auth_decisions_total ${method} missing`])
    }
  })

  it('takes the principal of a good token', () => {
    const verify = (token: string) => (token === 'a.b.c' ? good : bad)
    const { outcome, exchange } = authenticated({
      auth: ['bearer'],
      headers: { Authorization: 'Bearer a.b.c' },
      verifier: { verify },
    })
    assert.deepEqual([outcome, exchange.principal], [undefined, PRINCIPAL])
  })

  it('waits for a token that was not seen before', async () => {
    const { outcome, exchange } = authenticated({
      auth: ['bearer'],
      headers: { Authorization: 'Bearer a.b.c' },
      verifier: { verify: () => Promise.resolve(good) },
    })
    assert.ok(outcome instanceof Promise)
    assert.equal(exchange.principal, undefined)
    assert.equal(await outcome, undefined)
    assert.equal(exchange.principal, PRINCIPAL)
  })

  it('refuses a bad token also where anyone may call', () => {
    const { outcome, exchange } = authenticated({
      auth: ['none', 'bearer'],
      headers: { Authorization: 'Bearer a.b.c' },
      verifier: { verify: () => bad },
    })
    assert.ok(outcome !== undefined && 'code' in outcome)
    assert.deepEqual([outcome.code, exchange.principal], ['invalid_token', undefined])
  })

  it('says that a token is too long, and that it lives too long', () => {
    for (const [token, code, detail] of [
      ['a'.repeat(8193), 'invalid_credentials', 'The access token is longer than 8192 characters.'],
      ['a.b.c', 'invalid_token', 'The access token lives for more than 24 hours'],
    ] as const) {
      const fault = { reason: 'invalid', description: detail, cause: 'lives 86401 s' }
      const { outcome } = authenticated({
        auth: ['bearer'],
        headers: { Authorization: `Bearer ${token}` },
        verifier: { maxChars: 8192, verify: () => ({ fault }) },
      })
      assert.ok(outcome !== undefined && 'code' in outcome)
      assert.deepEqual([outcome.code, outcome.detail], [code, detail])
      assert.ok(outcome.headers.join().includes(`error_description="${detail.replace(/\.$/, '')}"`))
    }
  })

  it('refuses a token in the query before it looks at any other', () => {
    const verify = () => assert.fail('nothing was to be verified')
    const { outcome } = authenticated({
      auth: ['bearer'],
      query: '?a=1&access_token=x',
      headers: { Authorization: 'Bearer a.b.c' },
      verifier: { verify },
    })
    assert.ok(outcome !== undefined && 'code' in outcome)
    assert.equal(outcome.code, 'token_in_query')
  })

  it('looks at no token while the end of a session cannot be written, or ends elsewhere are not known', () => {
    for (const revocations of [{ isSafe: false }, { isSafe: true, isKnown: false }]) {
      const { gateway } = makeGateway({
        revocations: revocations as object as Gateway['revocations'],
        verifier: { maxChars: 8192 } as Gateway['verifier'],
      })
      const { exchange } = makeExchange({ headers: { Authorization: 'Bearer a.b.c' } })
      exchange.route = makeRoute({ auth: new Set(['bearer']) })
      const outcome = authenticate(gateway, exchange)
      assert.ok(outcome !== undefined && 'code' in outcome)
      assert.equal(outcome.code, 'sessions_unavailable')
    }
  })
})
