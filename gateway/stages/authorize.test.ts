import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { authorize } from './authorize.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute, NOW_MS } from './stage.test-support.ts'

function authorized(needed: readonly (string | readonly string[])[], held: readonly string[] | undefined) {
  const { exchange } = makeExchange({ headers: { Authorization: 'DPoP x' } })
  const sets = needed.filter((one) => typeof one !== 'string')
  exchange.route = makeRoute({ scopes: sets.length > 0 || needed.length === 0 ? sets : [needed as string[]] })
  if (held !== undefined) {
    exchange.principal = makePrincipal({ scopes: new Set(held), scope: held.join(' ') })
  }
  return authorize(makeGateway().gateway, exchange)
}

describe('authorize', () => {
  it('lets a caller through who holds every scope of the route', () => {
    assert.equal(authorized(['read', 'write'], ['write', 'other', 'read']), undefined)
  })

  it('needs no caller where the route needs no scope', () => {
    assert.equal(authorized([], undefined), undefined)
  })

  it('refuses when one scope is missing, and names all that are needed in the scheme that was used', () => {
    const refused = authorized(['read', 'write'], ['read'])
    assert.equal(refused?.code, 'insufficient_scope')
    assert.match(refused.cause ?? '', /no scope write/)
    const challenge = refused.headers.join(' ')
    assert.match(challenge, /DPoP [^,]*.*error="insufficient_scope"/)
    assert.match(challenge, /scope="read write"/)
  })

  it('lets a caller through who holds every scope of one of several sets, and names the first set to others', () => {
    const sets = [['read', 'write'], ['admin']]
    assert.equal(authorized(sets, ['admin']), undefined)
    assert.equal(authorized(sets, ['write', 'read']), undefined)
    const refused = authorized(sets, ['read'])
    assert.match(refused?.cause ?? '', /no scope write/)
    assert.match(refused?.headers.join(' ') ?? '', /scope="read write"/)
  })

  it('refuses a scope that is only part of one that is held', () => {
    assert.equal(authorized(['read'], ['read:all'])?.code, 'insufficient_scope')
  })

  it('refuses a caller who is not proved', () => {
    assert.equal(authorized(['read'], undefined)?.code, 'insufficient_scope')
  })

  it('refuses a user who was not authenticated as the route asks for, in words of RFC 9470', () => {
    const { exchange } = makeExchange({ headers: { Authorization: 'Bearer x' } })
    const { gateway } = makeGateway()
    exchange.route = makeRoute({ stepUp: { acr: ['sca', 'hw'], maxAgeMs: 300_000 } })
    const refusedAs = (acr?: string, authenticatedAtMs?: number) => {
      exchange.principal = makePrincipal({
        ...(acr !== undefined && { acr }),
        ...(authenticatedAtMs !== undefined && { authenticatedAtMs }),
      })
      return authorize(gateway, exchange)
    }
    assert.equal(refusedAs('hw', NOW_MS - 300_000), undefined)
    for (const refused of [
      refusedAs(undefined, NOW_MS),
      refusedAs('pwd', NOW_MS),
      refusedAs('sca hw', NOW_MS),
    ])
      assert.match(refused?.cause ?? '', /^acr .* is not sca or hw$/)
    assert.match(refusedAs('sca')?.cause ?? '', /auth_time is missing/)
    const refused = refusedAs('sca', NOW_MS - 300_001)
    assert.deepEqual([refused?.status, refused?.code], [401, 'insufficient_user_authentication'])
    assert.match(
      refused?.headers[1] ?? '',
      /^Bearer realm="api", error="insufficient_user_authentication", error_description="More recent authentication is required\.", acr_values="sca hw", max_age="300"$/,
    )
    exchange.principal = undefined
    assert.equal(authorize(gateway, exchange)?.code, 'insufficient_user_authentication')
  })

  it('names a missing scope before a missing authentication, which would not help alone', () => {
    const { exchange } = makeExchange()
    exchange.route = makeRoute({ scopes: [['admin']], stepUp: { acr: ['sca'], maxAgeMs: undefined } })
    exchange.principal = makePrincipal()
    assert.equal(authorize(makeGateway().gateway, exchange)?.code, 'insufficient_scope')
  })

  it('only reports a missing authentication in shadow mode', () => {
    const { exchange } = makeExchange()
    exchange.route = makeRoute({ isShadow: true, stepUp: { acr: ['sca'], maxAgeMs: undefined } })
    exchange.principal = makePrincipal()
    const { gateway, measured } = makeGateway()
    assert.equal(authorize(gateway, exchange), undefined)
    assert.ok(exchange.principal)
    assert.match(measured.join(), /gateway_shadow_refusals_total .*insufficient_user_authentication/)
  })
})
