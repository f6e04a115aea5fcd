// A service tested behind a real gateway: `node --test service.test.mjs`, where the package of the gateway is installed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { startGateway } from 'countersign/testing'

const SECRET = `whsec_${Buffer.from('a key of 24 bytes or more').toString('base64')}`

/** The service under test: responds with the path and the caller that the gateway names. */
const service = createServer((req, res) => {
  const caller = req.headers['x-auth-subject'] ?? req.headers['x-auth-client']
  res.end(JSON.stringify({ path: req.url, caller }))
})

describe('the service behind the gateway', () => {
  let gateway

  before(async () => {
    service.listen(0, '127.0.0.1')
    await once(service, 'listening')
    gateway = await startGateway({
      upstream: `http://127.0.0.1:${service.address().port}`,
      // This may also be the path of your gateway.json: issuer and audience are the file's, keys and addresses the test's.
      config: {
        routes: [
          { path: '/accounts/*', auth: ['bearer'], scopes: ['accounts:read'] },
          { path: '/events', methods: ['POST'], auth: ['hmac'] },
        ],
      },
      limits: [{ path: '/accounts/*', limit: 2, window: '1m', purpose: 'Protects the accounts' }],
      clients: [{ id: 'acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'ACME_SECRET' }] } }],
      env: { ACME_SECRET: SECRET },
    })
  })
  // Both must be closed even if the gateway did not start: otherwise the test would not end.
  after(async () => {
    service.close()
    await gateway?.stop()
  })

  const read = async (token) => {
    const headers = { authorization: `Bearer ${token}` }
    return fetch(`${gateway.url}/accounts/1`, { headers })
  }

  it('learns who calls, and is never reached by anybody else', async () => {
    const response = await read(await gateway.token({ subject: 'alice', scope: 'accounts:read' }))
    assert.deepEqual(await response.json(), { path: '/accounts/1', caller: 'alice' })
    assert.equal((await read(await gateway.token({ subject: 'alice' }))).status, 403)
    assert.equal((await read(await gateway.token({ lifetimeSeconds: -60 }))).status, 401)
  })

  it('is called twice a minute by one caller, however many requests there are', async () => {
    const token = await gateway.token({ client: 'nightly-report', scope: 'accounts:read' })
    const statuses = []
    for (let i = 0; i < 3; i++) statuses.push((await read(token)).status)
    assert.deepEqual(statuses, [200, 200, 429])
  })

  it('gets signed events, each of them in the audit trail', async () => {
    const body = '{"type":"payment.settled"}'
    const headers = gateway.webhook({ keyId: 'key_acme', secret: SECRET, body })
    const response = await fetch(`${gateway.url}/events`, { method: 'POST', headers, body })
    assert.equal(response.status, 200)
    const [request, ended] = gateway.audit(response.headers.get('x-request-id'))
    assert.deepEqual([request.type, request.clientId], ['API_REQUEST', 'acme'])
    assert.deepEqual([ended.type, ended.statusCode], ['API_RESPONSE', 200])
  })
})
