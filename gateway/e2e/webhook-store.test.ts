import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { call } from './client.ts'
import { ACME_SECRET, commonService, type TestService } from './running-service.ts'

const BODY = '{"test": 2432232314}'

describe('a webhook to the shipped service', () => {
  let service: TestService

  before(async () => {
    service = await commonService()
  })

  function deliver(id: string, atMs: number) {
    const at = new Date(atMs)
    return call(`${service.url}/api/webhooks/billing`, {
      method: 'POST',
      headers: {
        'x-api-key': 'key_acme',
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(atMs / 1000)),
        'webhook-signature': new Webhook(ACME_SECRET).sign(id, at, BODY),
        'content-type': 'application/json',
      },
      body: BODY,
    })
  }

  it('is stored once by its id, and its retry is accepted', async () => {
    const atMs = Date.now()
    const first = await deliver('msg_stored', atMs)
    assert.equal(first.status, 202, first.body)
    assert.equal(first.headers['idempotency-replayed'], undefined)
    assert.equal((await deliver('msg_stored', atMs)).status, 409)
    const retried = await deliver('msg_stored', atMs + 1000)
    assert.equal(retried.status, 202)
    assert.equal(retried.headers['idempotency-replayed'], 'true')
  })

  it('is refused without a signature, also with the token of a user', async () => {
    const url = `${service.url}/api/webhooks/billing`
    const log = { email: 'alice@example.com', password: 'demo-password' }
    const { accessToken } = (await call(`${service.url}/api/login`, { method: 'POST', body: log })).json<{
      accessToken: string
    }>()
    for (const headers of [{}, { authorization: `Bearer ${accessToken}` }]) {
      const response = await call(url, { method: 'POST', headers, body: BODY })
      assert.equal(response.status, 401)
      assert.equal(response.json().code, 'missing_credentials')
    }
  })
})
