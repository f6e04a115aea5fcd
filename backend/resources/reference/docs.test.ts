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
  readonly requestBody?: { content: Record<string, { schema: Schema; example?: object }> }
}

interface Schema {
  readonly examples?: readonly unknown[]
  readonly properties?: Record<string, Schema>
  readonly items?: Schema
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
    assert.match(page.text, /<title>Countersign demo API<\/title>/)
    assert.match(
      String(page.headers['content-security-policy']),
      /^default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';/,
    )
    assert.doesNotMatch(page.text, /https?:\/\//)
    const assets = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '')
    for (const name of ['docs.css', 'docs.js', 'icon.svg', 'swagger-ui-bundle.js'])
      assert.ok(
        assets.some((asset) => asset.endsWith(name)),
        name,
      )
    for (const asset of assets) assert.equal((await service.send({ url: asset })).status, 200, asset)
    assert.doesNotMatch(
      page.text,
      /<script(?![^>]*src=)[^>]*>[^<]*\S|<style|\sstyle=|\son\w+=/,
      'nothing inline, which the policy forbids',
    )
  })

  it('names no server for its page, so that the page calls its own origin', async () => {
    const { servers, ...rest } = document
    assert.deepEqual((await service.send({ url: '/docs/json' })).body, rest)
    assert.equal(servers.length, 1)
  })

  it('has example bodies that the routes accept', async () => {
    const user = await service.addUser()
    let tried = 0
    for (const { name, operation } of operations()) {
      const { schema, example } = operation.requestBody?.content['application/json'] ?? {}
      if (schema?.properties === undefined) continue
      const [method = '', path = ''] = name.split(' ')
      const { status, text } = await service.send({
        method: method.toUpperCase() as 'POST',
        url: path.replace('{id}', user.id),
        payload: (example ?? exampleOf(schema)) as object,
        as: user,
        scope: 'users:admin transfers:write identity:verify',
      })
      assert.notEqual(status, 400, `${name}: ${text}`)
      tried++
    }
    assert.ok(tried >= 7, String(tried))
  })
})

/** What Swagger UI writes into the form of a body. */
function exampleOf({ examples, properties, items }: Schema): unknown {
  if (examples !== undefined) return examples[0]
  if (items !== undefined) return [exampleOf(items)]
  if (properties === undefined) return ''
  return Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, exampleOf(field)]))
}
