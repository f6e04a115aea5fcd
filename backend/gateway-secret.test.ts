import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { migrate } from './database/migrations.ts'
import { openTestPglite } from './testing/databases.ts'
import { startTestService, type TestService, type TestUser } from './testing/service.ts'

const SECRET = 'between-gateway-and-backend-0123456789'

describe('a backend that shares a secret with its gateway', () => {
  let service: TestService
  let user: TestUser
  before(async () => {
    const database = await openTestPglite()
    await migrate(database)
    service = await startTestService(database, { gatewaySecret: SECRET })
    user = await service.addUser()
  })
  after(async () => {
    await service.app.close()
    await service.database.close()
  })

  const PATHS = [
    '/api/balance',
    '/api/users?limit=1',
    '/openapi.json',
    '/docs',
    '/docs/json',
    '/.well-known/jwks.json',
    '/.well-known/openid-configuration',
    '/oauth/authorize',
    '/oauth/interaction/x',
    '/nowhere',
    '/healthz/',
    '//healthz',
    '/healthz%2f..%2fapi%2fbalance',
  ]

  it('refuses a request without the secret, whoever it names as caller', async () => {
    for (const url of PATHS) {
      for (const secret of [undefined, '', 'x', `${SECRET}x`, SECRET.slice(1), SECRET.toUpperCase()]) {
        const headers: Record<string, string> = secret === undefined ? {} : { 'x-gateway-secret': secret }
        const { status, body } = await service.send({ url, as: user, scope: 'users:admin', headers })
        assert.deepEqual([status, body?.code], [403, 'gateway_required'], `${url} ${secret}`)
      }
    }
  })

  it('refuses a body before it reads it', async () => {
    const request = {
      method: 'POST',
      url: '/api/login',
      payload: '{',
      headers: { 'content-type': 'text/html' },
    } as const
    assert.equal((await service.send(request)).body.code, 'gateway_required')
  })

  it('serves a request with the secret, and tells its health to anybody', async () => {
    const headers = { 'x-gateway-secret': SECRET }
    assert.equal((await service.send({ url: '/api/balance', as: user, headers })).status, 200)
    assert.equal((await service.send({ url: '/nowhere', headers })).status, 404)
    assert.equal((await service.send({ url: '/healthz' })).status, 200)
    assert.equal((await service.send({ url: '/readyz' })).status, 200)
  })
})
