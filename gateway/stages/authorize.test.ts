import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { authorize } from './authorize.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute } from './stage.test-support.ts'

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

  it('lets a caller through who holds one of several sets whole, and names the first when none is', () => {
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

  it('refuses nobody in particular as well', () => {
    assert.equal(authorized(['read'], undefined)?.code, 'insufficient_scope')
  })
})
