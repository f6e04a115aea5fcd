import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { call } from './client.ts'
import { startService, type TestService } from './running-service.ts'

const SECRET = `whsec_${Buffer.from('a webhook secret of 32 bytes, ok').toString('base64')}`
const BODY = '{"test": 2432232314}'

describe('a webhook to the service as it is shipped', () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-'))
  const clients = join(dir, 'clients.json')
  let service: TestService

  before(async () => {
    const hmac = { keyId: 'key_acme', secrets: [{ env: 'ACME_WEBHOOK_SECRET' }] }
    writeFileSync(clients, JSON.stringify({ clients: [{ id: 'acme', hmac }] }))
    service = await startService({ env: { GATEWAY_CLIENTS: clients, ACME_WEBHOOK_SECRET: SECRET } })
  })
  after(async () => {
    await service.end()
    rmSync(dir, { recursive: true, force: true })
  })

  function deliver(id: string, atMs: number) {
    const at = new Date(atMs)
    return call(`${service.url}/api/webhooks/billing`, {
      method: 'POST',
      headers: {
        'x-api-key': 'key_acme',
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(atMs / 1000)),
        'webhook-signature': new Webhook(SECRET).sign(id, at, BODY),
        'content-type': 'application/json',
      },
      body: BODY,
    })
  }

  it('is stored once by its id, and a retry of its sender is accepted again', async () => {
    const atMs = Date.now()
    const first = await deliver('msg_stored', atMs)
    assert.equal(first.status, 202, first.body)
    assert.equal(first.headers['idempotency-replayed'], undefined)
    assert.equal((await deliver('msg_stored', atMs)).status, 409)
    const retried = await deliver('msg_stored', atMs + 1000)
    assert.equal(retried.status, 202)
    assert.equal(retried.headers['idempotency-replayed'], 'true')
  })

  it('is refused when nobody has signed it, also with the token of a user', async () => {
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
