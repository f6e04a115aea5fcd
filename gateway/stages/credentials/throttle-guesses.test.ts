import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { AuthThrottle } from '../../auth/throttle.ts'
import type { Gateway } from '../../gateway.ts'
import type { Refusal } from '../../refusals.ts'
import { authenticate } from '../authenticate.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute, NOW_MS } from '../stage.test-support.ts'

const FAILURES = 3
const KNOWN = { principal: makePrincipal(), binding: undefined }
const BOUND = { principal: makePrincipal({ client: 'app' }), binding: { jkt: 'key', thumbprint: undefined } }
const forged = { fault: { reason: 'invalid', description: 'It is invalid', cause: 'signature' } }

/** A gateway that knows the token `known` and three bound tokens. An address has guessed too often. */
async function blocked() {
  let failures = 0
  const counter = {
    take: () => ({
      allowed: ++failures <= FAILURES,
      remaining: Math.max(0, FAILURES - failures),
      resetSeconds: 60,
    }),
  }
  const verified: string[] = []
  const cached: Record<string, object> = { known: KNOWN, proved: BOUND, stolen: BOUND, other: BOUND }
  const verifier = {
    verify: (token: string) => {
      verified.push(token)
      return cached[token] ?? (token === 'new' || token === 'opaque' ? KNOWN : forged)
    },
    verifyKnown: (token: string) => cached[token],
    wasActive: (token: string) => token === 'opaque',
  }
  const faults: Record<string, string> = { 'bad-proof': 'invalid_dpop_proof', 'no-nonce': 'use_dpop_nonce' }
  const proofs = {
    nonce: () => undefined,
    verify: (proof: string) => {
      const error = faults[proof]
      return error && { error, description: 'No', cause: proof }
    },
  }
  const throttle = new AuthThrottle({ counter, clock: () => NOW_MS })
  const made = makeGateway({ verifier, proofs, throttle } as object)
  const ask = async (authorization: string, dpop?: string): Promise<Refusal | undefined> => {
    const headers = { Authorization: authorization, ...(dpop !== undefined && { DPoP: dpop }) }
    const { exchange } = makeExchange({ headers })
    exchange.route = makeRoute({ auth: new Set(['bearer']) })
    const outcome = await authenticate(made.gateway as Gateway, exchange)
    assert.equal(exchange.principal === undefined, outcome !== undefined)
    return outcome
  }
  for (let n = 0; n < FAILURES; n++) assert.equal((await ask(`Bearer forged-${n}`))?.code, 'invalid_token')
  verified.length = 0
  return { ...made, ask, verified, failures: () => failures }
}

describe('an address that has presented too many bad credentials', () => {
  it('gets in with a token that was verified before, and with nothing else', async () => {
    const { ask, measured, verified } = await blocked()
    assert.equal(await ask('Bearer known'), undefined)
    assert.equal(measured.at(-1), 'gateway_auth_decisions_total bearer accepted')
    for (const token of ['new', 'forged']) {
      const refused = await ask(`Bearer ${token}`)
      assert.deepEqual([refused?.code, refused?.headers], ['too_many_failures', ['Retry-After', '60']], token)
      assert.equal(measured.at(-1), 'gateway_auth_decisions_total bearer throttled')
    }
    assert.deepEqual(verified, [], 'no signature was checked')
    assert.equal(await ask('Bearer known'), undefined)
  })

  it('gets in with an opaque token that was active before, about which the issuer is asked again', async () => {
    const { ask, verified } = await blocked()
    assert.equal(await ask('Bearer opaque'), undefined)
    assert.deepEqual(verified, ['opaque'])
  })

  it('gets in with a bound token only by a good proof, and is told when the proof needs a nonce', async () => {
    const { ask, failures } = await blocked()
    assert.equal(await ask('DPoP proved', 'good'), undefined)
    const before = failures()
    const stolen = await ask('DPoP stolen', 'bad-proof')
    assert.deepEqual([stolen?.code, stolen?.client], ['too_many_failures', 'app'])
    assert.equal((await ask('Bearer stolen'))?.code, 'too_many_failures')
    assert.equal(
      (await ask('DPoP known'))?.code,
      'too_many_failures',
      'no key is bound to it, so no key proves it',
    )
    assert.equal(failures(), before + 3, 'each is a guess')
    const unproved = await ask('DPoP other', 'no-nonce')
    assert.deepEqual([unproved?.code, unproved?.client], ['use_dpop_nonce', 'app'])
  })
})
