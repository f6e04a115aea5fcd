import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { decodeJwt } from 'jose'
import * as client from 'openid-client'
import { MANDATORY_HEADERS } from '../edge/rules/policy/response-policy.ts'
import { call, type ReceivedResponse } from './client.ts'
import { authorize, discover, tokensFor } from './oauth-client.ts'
import { ath, proof } from './proofs.ts'
import { commonService, type TestService } from './running-service.ts'

/** Tokens bound to a key of the app (RFC 9449), with the nonce that the gateway asks for. */
describe('a token bound by DPoP', () => {
  let service: TestService
  let shipped: object
  let mobile: client.Configuration
  let keys: client.CryptoKeyPair
  let dpop: client.DPoPHandle
  let token: string
  let nonce: string
  before(async () => {
    service = await commonService()
    shipped = JSON.parse(readFileSync(join(service.gateway.dir, 'gateway.json'), 'utf8')) as object
    await service.gateway.become({ config: { ...shipped, dpop: { nonce: 'required' } } })
    mobile = await discover(service, 'mobile-app')
    keys = await client.randomDPoPKeyPair('ES256')
    dpop = client.getDPoPHandle(mobile, keys)
    token = (await tokensFor(mobile, { dpop, pushed: true })).access_token
    nonce = String((await ask(`DPoP ${token}`, await good({ nonce: 'none' }))).headers['dpop-nonce'])
  })
  after(() => service.gateway.become({ config: shipped }))

  const url = () => `${service.url}/api/balance`
  const good = (claims: object = {}) =>
    proof(keys, { htm: 'GET', htu: url(), ath: ath(token), nonce, ...claims })
  const ask = (authorization: string, dpopProof?: string, path = '/api/balance'): Promise<ReceivedResponse> =>
    call(service.url + path, {
      headers: { authorization, ...(dpopProof === undefined ? {} : { dpop: dpopProof }) },
    })
  const decisions = (outcome: string) =>
    service.gateway.metric(`gateway_auth_decisions_total{method="bearer",outcome="${outcome}"}`)
  const fetchBalance = (handle: client.DPoPHandle) =>
    client.fetchProtectedResource(mobile, token, new URL(url()), 'GET', undefined, undefined, {
      DPoP: handle,
    })

  it('works with the client library, which learns the nonce of the gateway by one refusal', async () => {
    const handle = client.getDPoPHandle(mobile, keys)
    const [asked, accepted] = [await decisions('use_dpop_nonce'), await decisions('accepted')]
    assert.equal((await fetchBalance(handle)).status, 200)
    assert.equal(await decisions('use_dpop_nonce'), asked + 1)
    assert.equal((await fetchBalance(handle)).status, 200)
    assert.equal(await decisions('use_dpop_nonce'), asked + 1, 'once learnt it is kept')
    assert.equal(await decisions('accepted'), accepted + 2)
  })

  it('names the key that it is bound to', async () => {
    const { cnf } = decodeJwt(token) as { cnf?: { jkt?: string } }
    assert.equal(cnf?.jkt, await dpop.calculateThumbprint())
  })

  it('without a nonce gets the challenge of RFC 9449 section 9', async () => {
    const answer = await ask(`DPoP ${token}`, await good({ nonce: undefined }))
    assert.equal(answer.status, 401)
    assert.match(String(answer.headers['www-authenticate']), /DPoP error="use_dpop_nonce"/)
    assert.ok(answer.headers['dpop-nonce'])
    assert.equal(
      (await ask(`DPoP ${token}`, await good())).status,
      200,
      'what is refused below is good otherwise',
    )
  })

  const stranger = client.randomDPoPKeyPair('ES256')
  const thefts: {
    readonly title: string
    readonly error: string
    readonly scheme?: string
    readonly make: () => Promise<string | undefined> | undefined
  }[] = [
    { title: 'as a plain bearer token', error: 'invalid_token', scheme: 'Bearer', make: () => undefined },
    {
      title: 'as a bearer token with a good proof',
      error: 'invalid_token',
      scheme: 'Bearer',
      make: () => good(),
    },
    { title: 'without a proof', error: 'invalid_dpop_proof', make: () => undefined },
    {
      title: "with the proof of the thief's own key",
      error: 'invalid_token',
      make: async () => proof(await stranger, { htm: 'GET', htu: url(), ath: ath(token), nonce }),
    },
    {
      title: 'with a proof for another path',
      error: 'invalid_dpop_proof',
      make: () => good({ htu: `${service.url}/api/data` }),
    },
    {
      title: 'with a proof for another host',
      error: 'invalid_dpop_proof',
      make: () => good({ htu: 'https://attacker.example/api/balance' }),
    },
    {
      title: 'with a proof for another method',
      error: 'invalid_dpop_proof',
      make: () => good({ htm: 'POST' }),
    },
    {
      title: 'with a proof for another token',
      error: 'invalid_dpop_proof',
      make: () => good({ ath: ath('another') }),
    },
    { title: 'with a proof for no token', error: 'invalid_dpop_proof', make: () => good({ ath: undefined }) },
    {
      title: 'with an old proof',
      error: 'invalid_dpop_proof',
      make: () => good({ iat: Math.floor(Date.now() / 1000) - 120 }),
    },
    {
      title: 'with a nonce that the gateway never gave',
      error: 'use_dpop_nonce',
      make: () => good({ nonce: 'made-up' }),
    },
  ]
  for (const { title, error, scheme = 'DPoP', make } of thefts) {
    it(`is refused ${title}`, async () => {
      const before = await service.gateway.metric(`gateway_refusals_total{code="${error}"}`)
      const answer = await ask(`${scheme} ${token}`, await make())
      assert.equal(answer.status, 401, answer.body)
      assert.match(
        String(answer.headers['www-authenticate']),
        new RegExp(`${scheme} [^,]*(?:, )?error="${error}"`),
      )
      for (const [name, value] of MANDATORY_HEADERS) assert.equal(answer.headers[name.toLowerCase()], value)
      assert.equal(await service.gateway.metric(`gateway_refusals_total{code="${error}"}`), before + 1)
      const [, response] = await service.gateway.pair(String(answer.headers['x-request-id']))
      assert.deepEqual([response.statusCode, response.userId], [401, undefined])
    })
  }

  it('is refused with a proof that is sent again', async () => {
    const seen = await good()
    assert.equal((await ask(`DPoP ${token}`, seen)).status, 200)
    const replayed = await ask(`DPoP ${token}`, seen)
    assert.equal(replayed.status, 401)
    assert.match(String(replayed.headers['www-authenticate']), /error="invalid_dpop_proof"/)
  })

  it('stays bound after a refresh, which needs its key', async () => {
    const tokens = await tokensFor(mobile, { dpop })
    const refresh = String(tokens.refresh_token)
    const thief = { DPoP: client.getDPoPHandle(mobile, await stranger) }
    for (const options of [thief, undefined]) {
      await assert.rejects(
        client.refreshTokenGrant(mobile, refresh, undefined, options),
        client.ResponseBodyError,
      )
    }
    const next = await client.refreshTokenGrant(mobile, refresh, undefined, { DPoP: dpop })
    const answer = await ask(`Bearer ${next.access_token}`)
    assert.equal(answer.status, 401, 'without its key it is worth nothing')
    const boundTo = (accessToken: string) => (decodeJwt(accessToken).cnf as { jkt: string }).jkt
    assert.equal(boundTo(next.access_token), boundTo(token))
  })

  it('is issued for a pushed request only to the key that pushed it', async () => {
    const { back, checks } = await authorize(mobile, { dpop, pushed: true })
    const thief = { DPoP: client.getDPoPHandle(mobile, await stranger) }
    await assert.rejects(
      client.authorizationCodeGrant(mobile, back, checks, undefined, thief),
      client.ResponseBodyError,
    )
  })

  it('cannot be replaced by an unbound token with a proof', async () => {
    const { access_token: unbound } = await tokensFor(mobile)
    assert.equal((await ask(`Bearer ${unbound}`)).status, 200)
    const dressed = await proof(keys, { htm: 'GET', htu: url(), ath: ath(unbound), nonce })
    assert.equal((await ask(`DPoP ${unbound}`, dressed)).status, 401)
  })
})
