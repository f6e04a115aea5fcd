import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { type Call, call, sendBytes } from './client.ts'
import { answered } from './http2-client.ts'
import { commonGateway, type TestGateway, until } from './running-gateway.ts'
import { type SeenRequest, startUpstream, type TestUpstream } from './test-upstream.ts'

const NODE = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 20 }, child: { $ref: '#/components/schemas/Node' } },
}

/** A backtracking engine takes exponential time for `aaa…!`. */
const SLOW_EMAIL =
  '^([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$'
const query = (name: string, pattern: string) => ({ name, in: 'query', schema: { type: 'string', pattern } })

const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Test', version: '1' },
  security: [],
  servers: [{ url: 'https://api.example/v1' }],
  components: {
    schemas: { Node: NODE },
    pathItems: {
      Shared: {
        parameters: [{ name: 'number', in: 'path', required: true, schema: { type: 'integer' } }],
        get: {
          parameters: [
            { name: 'filter', in: 'query', required: true, style: 'deepObject', schema: { type: 'object' } },
            { name: 'color', in: 'query', required: true, schema: { type: 'object' } },
          ],
        },
      },
    },
  },
  paths: {
    '/items': {
      get: {
        parameters: [
          {
            name: 'limit',
            in: 'query',
            required: true,
            schema: { type: 'integer', minimum: 1, maximum: 100 },
          },
          { name: 'tag', in: 'query', schema: { type: 'array', items: { type: 'string', minLength: 2 } } },
          { name: 'X-Flag', in: 'header', schema: { type: 'boolean' } },
        ],
      },
      post: {
        requestBody: {
          required: true,
          content: {
            'application/json': { schema: { $ref: '#/components/schemas/Node' } },
            'text/*': {},
          },
        },
      },
    },
    '/email': { get: { parameters: [query('email', SLOW_EMAIL)] } },
    '/name': { get: { parameters: [query('v', "^[\\p{L}\\-\\' ]+$")] } },
    '/any': { post: { requestBody: { content: { '*/*': { schema: { type: 'object' } } } } } },
    '/shared/{number}': { $ref: '#/components/pathItems/Shared' },
    '/of/another/{number}': { $ref: '#/components/pathItems/Shared' },
    '/items/{id}': {
      parameters: [
        { name: 'id', in: 'path', required: true, schema: { type: 'string', pattern: '^[a-z ]{1,8}$' } },
      ],
      put: { requestBody: { content: { 'application/merge-patch+json': { schema: { type: 'object' } } } } },
    },
  },
}

describe('a gateway that validates requests by a document', () => {
  let upstream: TestUpstream
  let gateway: TestGateway

  before(async () => {
    upstream = await startUpstream()
    // The first edit adds the document, because its directory is known only after the start.
    gateway = await commonGateway({
      config: { upstream: upstream.url, http2: true, routes: [{ path: '/other', auth: ['none'] }] },
    })
    write(DOCUMENT)
    writeFileSync(
      join(gateway.dir, 'gateway.json'),
      JSON.stringify({
        upstream: upstream.url,
        http2: true,
        openapi: { file: join(gateway.dir, 'api.json'), validateRequests: true },
      }),
    )
    await until(async () => ((await send('/v1/items?limit=1')).status === 200 ? true : undefined))
  })
  after(async () => {
    upstream.close()
  })

  function write(document: object | string): void {
    const text = typeof document === 'string' ? document : JSON.stringify(document)
    writeFileSync(join(gateway.dir, 'api.json'), text)
  }

  const send = (path: string, options: Call = {}) => call(gateway.url + path, options)
  const post = (body: string | Buffer, type = 'application/json', path = '/v1/items') =>
    send(path, { method: 'POST', body, headers: { 'content-type': type } })

  async function refused(response: Promise<Awaited<ReturnType<typeof call>>>): Promise<string> {
    const { status, json } = await response
    const { code, detail } = json<{ code: string; detail: string }>()
    return `${status} ${code}: ${detail}`
  }

  it('lets only the operations of the document through', async () => {
    assert.equal((await send('/v1/items?limit=1')).status, 200)
    assert.equal((await send('/items?limit=1')).status, 404)
    assert.equal((await send('/other')).status, 404)
    const response = await send('/v1/items', { method: 'DELETE' })
    assert.deepEqual([response.status, response.headers.allow], [405, 'GET, HEAD, POST'])
    assert.equal((await send('/v1/items?limit=1', { method: 'HEAD' })).status, 200)
    assert.equal(
      await gateway.metric('gateway_http_requests_total{route="/v1/items",method="HEAD",status="200"}'),
      1,
    )
  })

  const PARAMETERS: readonly [path: string, headers: Record<string, string>, refusal: RegExp | undefined][] =
    [
      ['/v1/items', {}, /The query parameter "limit" is missing\./],
      ['/v1/items?limit=0', {}, /The query parameter "limit" must be >= 1\./],
      ['/v1/items?limit=0x10', {}, /"limit" must be integer/],
      ['/v1/items?limit=1e2', {}, /"limit" must be integer/],
      ['/v1/items?limit=5.0', {}, /"limit" must be integer/],
      ['/v1/items?limit=5&limit=500', {}, /"limit" must occur once/],
      ['/v1/items?limit=5&tag=ab&tag=c', {}, /"tag" at "\/1": must NOT have fewer than 2 characters/],
      ['/v1/items?limit=5&tag=ab&tag=cd&more=1', {}, undefined],
      ['/v1/items?limit=5', { 'x-flag': 'yes' }, /The header parameter "x-flag" must be boolean/],
      ['/v1/items?limit=5', { 'x-flag': 'true' }, undefined],
    ]
  it('refuses a parameter that does not fit, and names it', async () => {
    for (const [path, headers, refusal] of PARAMETERS) {
      if (refusal === undefined) assert.equal((await send(path, { headers })).status, 200, path)
      else
        assert.match(
          await refused(send(path, { headers })),
          new RegExp(`^400 schema_violation: .*${refusal.source}`),
        )
    }
    const put = (path: string) =>
      send(path, { method: 'PUT', body: '{}', headers: { 'content-type': 'application/merge-patch+json' } })
    assert.equal((await put('/v1/items/a%20b')).status, 200)
    assert.match(await refused(put('/v1/items/%FF')), /^400 /)
    assert.match(await refused(put('/v1/items/UPPER')), /The path parameter "id" must match pattern/)
  })

  it('refuses at once a text that would block a backtracking pattern, and serves others meanwhile', async () => {
    const attack = `/v1/email?email=${'a'.repeat(45)}!`
    const responses = await Promise.all(
      [attack, '/v1/email?email=jo@x.co', attack, '/v1/email?email=jo@x.co'].map((path) => send(path)),
    )
    assert.deepEqual(
      responses.map(({ status }) => status),
      [400, 200, 400, 200],
    )
    assert.match(await refused(send(attack)), /"email" must match pattern/)
  })

  it('reads \\p{L} in a pattern as letters of any script', async () => {
    assert.equal((await send('/v1/name?v=Jos%C3%A9')).status, 200)
    assert.match(
      await refused(send('/v1/name?v=p%7BL%7D')),
      /^400 schema_violation: .*"v" must match pattern/,
    )
  })

  it('checks both of two paths that refer to one description', async () => {
    for (const path of ['/v1/shared', '/v1/of/another']) {
      assert.equal((await send(`${path}/5?filter[a]=1&R=100`)).status, 200, path)
      assert.match(await refused(send(`${path}/x?filter[a]=1&R=100`)), /"number" must be integer/)
    }
  })

  it('does not check a field that Connection names, because the service does not get it', async () => {
    const headers = { 'x-flag': 'yes', connection: 'keep-alive, X-Flag' }
    assert.equal((await send('/v1/items?limit=5', { headers })).status, 200)
    const { 'x-flag': _, ...sent } = {
      ...headers,
      'content-type': 'application/json',
      connection: 'Content-Type',
    }
    assert.match(await refused(send('/v1/items', { method: 'POST', body: '{}', headers: sent })), /^415 /)
  })

  it('treats a chunked body without a byte as no body', async () => {
    const chunked = { 'transfer-encoding': 'chunked' }
    const of = (path: string) => send(path, { method: 'POST', body: '', headers: chunked })
    assert.equal((await of('/v1/any')).status, 200)
    assert.match(await refused(of('/v1/items')), /^400 schema_violation: A request body is needed/)
  })

  it('refuses a body that does not fit, and names the place by a pointer, but no value', async () => {
    assert.match(
      await refused(post('{"child":{"name":5}}')),
      /^400 schema_violation: The request body at "\/child\/name": must be string\.$/,
    )
    assert.match(await refused(post('{"name":"a","name":"b"}')), /body has a member twice/)
    assert.match(await refused(post('{"name"')), /body is not JSON/)
    assert.match(await refused(post('{"child":'.repeat(100_000))), /nested deeper than 64 levels/)
    assert.match(await refused(post(Buffer.from([0x22, 0xff, 0x22]))), /body is not UTF-8/)
    assert.match(await refused(send('/v1/items', { method: 'POST' })), /A request body is needed/)
    assert.match(await refused(post('{}', 'application/xml')), /^415 unsupported_media_type/)
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
    assert.match(
      await refused(send('/v1/items', { method: 'POST', body: '{}', headers })),
      /^415 .*must not be encoded/,
    )
    const twice = { ...headers, 'content-encoding': ['identity', 'gzip'] }
    assert.match(
      await refused(send('/v1/items', { method: 'POST', body: '{}', headers: twice })),
      /^415 .*must not be encoded/,
    )
    assert.match(await refused(post(`"${'x'.repeat(2 * 1024 * 1024)}"`)), /^413 body_too_large/)
    assert.match(await refused(post('[]', 'application/vnd.x+json', '/v1/any')), /body must be object/)
    assert.equal((await post('[]', 'text/plain', '/v1/any')).status, 200)
    const secret = 'a-secret-value-that-is-too-long'
    const response = await post(JSON.stringify({ name: secret }))
    assert.equal(response.status, 400)
    assert.ok(!response.body.includes(secret))
    const id = String(response.headers['x-request-id'])
    assert.equal((await gateway.pair(id))[1].statusCode, 400)
  })

  it('forwards a fitting body unchanged, and a body of a type without a schema unchecked', async () => {
    const node = fc.letrec((tie) => ({
      node: fc.record(
        {
          name: fc.string({ maxLength: 10, unit: 'grapheme' }),
          child: tie('node'),
          'other\u2028': fc.jsonValue(),
        },
        { requiredKeys: [] },
      ),
    })).node
    await fc.assert(
      fc.asyncProperty(node, fc.constantFrom(undefined, 1, '\t'), async (value, indent) => {
        const body = ` ${JSON.stringify(value, null, indent)}\r\n`
        const response = await post(body, 'application/json; charset=utf-8')
        assert.equal(response.status, 200, response.body)
        assert.equal(response.json<SeenRequest & object>().body, body)
      }),
      { numRuns: 60 },
    )
    assert.equal((await post('{"name":5}', 'text/plain')).json<SeenRequest & object>().body, '{"name":5}')
  })

  it('waits over HTTP/2 for the frame that shows whether there is a body', async () => {
    const session = connect(gateway.url)
    const ended = async (path: string, lateMs: number, type?: string) => {
      const headers = { ':method': 'POST', ':path': path, ...(type && { 'content-type': type }) }
      const stream = session.request(headers, { endStream: false })
      setTimeout(() => stream.end(), lateMs)
      const { status, body } = await answered(stream)
      if (status !== 200) return status
      const { 'transfer-encoding': coding, 'content-length': length } = JSON.parse(body).headers
      return [coding, length]
    }
    const json = 'application/json'
    const bodiless = [undefined, '0']
    // On a busy machine the end may come later than the 50 ms that the gateway waits.
    for (const lateMs of [0, 10])
      await until(async () => isDeepStrictEqual(await ended('/v1/any', lateMs), bodiless) || undefined)
    // JSON has a schema, so the gateway reads the body to its end.
    for (const lateMs of [10, 200]) assert.deepEqual(await ended('/v1/any', lateMs, json), bodiless)
    assert.deepEqual([await ended('/v1/items', 10, json), await ended('/v1/items', 200, json)], [400, 400])
    session.close()
  })

  it('takes edits of the document, and keeps the last good one while it is faulty', async () => {
    const successful = 'gateway_config_last_reload_successful{file="gateway.json"}'
    const from = gateway.process.lines.length
    write('{"openapi":')
    await until(async () => ((await gateway.metric(successful)) === 0 ? true : undefined))
    assert.equal((await send('/v1/items?limit=1')).status, 200)
    const [line] = gateway.process.lines.slice(from).filter(({ faults }) => faults !== undefined)
    assert.match(String(line?.faults), /api\.json: line 1 column/)
    write({ ...DOCUMENT, servers: [], paths: { '/new': { get: {} } } })
    await until(async () => ((await send('/new')).status === 200 ? true : undefined))
    assert.equal((await send('/v1/items?limit=1')).status, 404)
    assert.equal(await gateway.metric(successful), 1)
    const change = gateway.audit().findLast(({ type }) => type === 'CONFIG_CHANGE')
    const [after] = (change as object as { after: [{ openapi: { hash: string } }] }).after
    assert.match(after.openapi.hash, /^[0-9a-f]{64}$/)
  })

  it('forwards a raw path that openapi.rows allows, but none that may be read as one of another row', async () => {
    const rows = [{ path: '/v1/shared/{number}', rawPath: true, underscoreNames: true }]
    write(DOCUMENT)
    const openapi = { file: join(gateway.dir, 'api.json'), validateRequests: true, rows }
    writeFileSync(
      join(gateway.dir, 'gateway.json'),
      JSON.stringify({ upstream: upstream.url, http2: true, openapi }),
    )
    const answer = (target: string) =>
      sendBytes(
        Number(new URL(gateway.url).port),
        `GET ${target} HTTP/1.1\r\nHost: a\r\nX_Odd: 1\r\nConnection: close\r\n\r\n`,
      )
    await until(async () => (await answer('/v1/shared/%35')).includes('"/v1/shared/%35"') || undefined)
    assert.match(await answer('/v1/items/%2e%2e/shared/5'), /^HTTP\/1\.1 400 /)
  })
})
