import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { migrate } from '../../database/migrations.ts'
import { openTestPglite } from '../../testing/databases.ts'
import { PUBLIC_URL, startTestService, type TestService } from '../../testing/service.ts'

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly security?: unknown[]
  readonly responses: Record<string, { description: string; content?: Record<string, unknown> }>
}

describe('the description of the API', () => {
  let service: TestService
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document
  let document: any
  before(async () => {
    const database = await openTestPglite()
    await migrate(database)
    service = await startTestService(database)
    document = (await service.send({ url: '/openapi.json' })).body
  })
  after(async () => {
    await service.app.close()
    await service.database.close()
  })

  const operations = () =>
    Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
    )

  it('is a valid OpenAPI 3.1 document', async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(document))
    assert.ok(valid, JSON.stringify(errors))
    assert.equal(document.openapi, '3.1.0')
    assert.equal(document.servers[0].url, PUBLIC_URL)
  })

  it('describes every route that callers have, and no other', () => {
    const names = operations().map(({ name }) => name)
    assert.deepEqual(names.sort(), [
      'delete /api/users/{id}',
      'get /.well-known/jwks.json',
      'get /api/balance',
      'get /api/data',
      'get /api/users',
      'get /api/users/{id}',
      'patch /api/users/{id}',
      'post /api/login',
      'post /api/logout',
      'post /api/session/refresh',
      'post /api/transfer',
      'post /api/users',
      'post /api/verify',
      'post /api/webhooks/{source}',
      'put /api/users/{id}',
    ])
  })

  it('gives every operation a name, a summary and its problems', () => {
    const ids = operations().map(({ operation }) => operation.operationId)
    assert.equal(new Set(ids).size, ids.length)
    for (const { name, operation } of operations()) {
      assert.ok(operation.summary, name)
      for (const [status, response] of Object.entries(operation.responses)) {
        assert.ok(response.description, `${name} ${status}`)
        if (Number(status) >= 400)
          assert.ok(response.content?.['application/problem+json'], `${name} ${status}`)
      }
    }
  })

  it('describes a problem once and refers to it', () => {
    assert.deepEqual(Object.keys(document.components.schemas), ['Problem'])
    const { schema } = document.paths['/api/balance'].get.responses['401'].content['application/problem+json']
    assert.deepEqual(schema, { $ref: '#/components/schemas/Problem' })
  })

  it('says which operations need a token', () => {
    assert.deepEqual(document.security, [])
    const open = operations()
      .filter(({ operation }) => operation.security === undefined)
      .map(({ name }) => name)
    assert.deepEqual(open.sort(), [
      'get /.well-known/jwks.json',
      'post /api/login',
      'post /api/session/refresh',
    ])
  })

  it('has a page to read it, which loads nothing from elsewhere', async () => {
    const page = await service.send({ url: '/docs' })
    assert.equal(page.status, 200)
    assert.match(String(page.headers['content-type']), /^text\/html/)
    const policy = String(page.headers['content-security-policy'])
    assert.match(policy, /default-src 'none'/)
    assert.match(policy, /script-src 'self'; style-src 'self';/)
    assert.doesNotMatch(page.text, /https?:\/\//)
    const assets = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '')
    assert.ok(assets.length >= 3)
    for (const asset of assets) {
      const { pathname } = new URL(asset, 'http://localhost/docs')
      assert.equal((await service.send({ url: pathname })).status, 200, pathname)
    }
    assert.doesNotMatch(
      page.text,
      /<script(?![^>]*src=)[^>]*>[^<]*\S/,
      'no inline script, which the policy forbids',
    )
  })

  it('has forms whose bodies are taken as they are', async () => {
    const { text: page } = await service.send({ url: '/docs' })
    const user = await service.addUser()
    const bodies = [...page.matchAll(/<textarea id="(\w+)-body"[^>]*>([^<]*)</g)].map(
      ([, id, text = '']) => ({
        id,
        payload: text.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&amp;', '&'),
      }),
    )
    assert.ok(bodies.length >= 7)
    for (const { id, payload } of bodies) {
      const [path, method] = Object.entries<Record<string, Operation>>(document.paths).flatMap(
        ([path, methods]) =>
          Object.entries(methods)
            .filter(([, { operationId }]) => operationId === id)
            .map(([method]) => [path, method.toUpperCase()] as const),
      )[0] ?? ['', '']
      const { status, text } = await service.send({
        method: method as 'POST',
        url: path.replace('{id}', user.id),
        payload,
        as: user,
        scope: 'users:admin transfers:write identity:verify',
        headers: { 'content-type': 'application/json' },
      })
      assert.notEqual(status, 400, `${id}: ${payload} ${text}`)
    }
  })

  it('is shown whole and under the name of the product', async () => {
    const { text: page } = await service.send({ url: '/docs' })
    assert.match(page, /<title>Countersign demo API<\/title>/)
    for (const { operation } of operations())
      assert.ok(page.includes(`<section class="card" id="${operation.operationId}">`), operation.operationId)
    assert.equal((await service.send({ url: '/docs/' })).headers.location, '/docs')
  })
})
