import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { REFUSALS, type RefusalCode, refusal } from '../../refusals.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute } from '../stage.test-support.ts'
import { overlook } from './overlook.ts'

/** The outcome for a request whose caller had a principal before the refusal. */
function overlooked(code: RefusalCode) {
  const { gateway, measured } = makeGateway()
  const { exchange } = makeExchange()
  exchange.route = makeRoute({ path: '/shadow', isShadow: true })
  exchange.principal = makePrincipal()
  const refused = overlook(gateway, exchange, refusal(code))
  return { refused, principal: exchange.principal, measured }
}

const codes = Object.keys(REFUSALS) as RefusalCode[]

describe('shadow mode', () => {
  it('overlooks what is about who calls and what that caller may do, and nothing else', () => {
    const passed = codes.filter((code) => overlooked(code).refused === undefined)
    assert.deepEqual(passed.sort(), [
      'digest_mismatch',
      'insufficient_scope',
      'insufficient_user_authentication',
      'introspection_unavailable',
      'invalid_certificate',
      'invalid_credentials',
      'invalid_dpop_proof',
      'invalid_signature',
      'invalid_token',
      'keys_unavailable',
      'missing_credentials',
      'missing_signature',
      'missing_token',
      'proofs_unavailable',
      'revocation_unavailable',
      'sessions_unavailable',
      'token_in_query',
      'too_many_failures',
      'use_dpop_nonce',
      'webhook_replayed',
      'webhooks_unavailable',
    ])
  })

  it('counts each refusal, and believes the caller only where scopes or authentication are not enough', () => {
    for (const code of codes) {
      const { refused, principal, measured } = overlooked(code)
      if (refused !== undefined) continue
      assert.equal(principal !== undefined, code.startsWith('insufficient_'), code)
      assert.deepEqual(measured, [`gateway_shadow_refusals_total /shadow ${code}`])
    }
  })
})
