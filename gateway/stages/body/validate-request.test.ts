import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OperationRules, type RequestRules } from '../../config/openapi/compiled-operations.ts'
import { asJsonSchemas } from '../../config/openapi/openapi-schemas.ts'
import type { Route } from '../../config/settings.ts'
import { makeExchange, makeGateway, makeRoute } from '../stage.test-support.ts'
import { validate } from './validate-request.ts'

const RULES: RequestRules = {
  parameters: [
    {
      in: 'query',
      name: 'limit',
      required: true,
      form: 'single',
      at: undefined,
      types: new Set(['integer']),
      fits: () => undefined,
    },
  ],
  bodyRequired: false,
  content: undefined,
}

function validated(route: Partial<Route>, method = 'GET') {
  const { gateway } = makeGateway({ requestRules: { get: () => RULES } })
  const { exchange } = makeExchange({ method })
  exchange.route = makeRoute(route)
  return validate(gateway, exchange)
}

const operations = { GET: { path: '/a', pointer: '/paths/~1a/get' } }

describe('validate', () => {
  it('refuses what does not fit the operation of the method, and HEAD by that of GET', () => {
    for (const method of ['GET', 'HEAD']) {
      const refused = validated({ operations }, method)
      assert.ok(refused !== undefined && 'code' in refused)
      assert.deepEqual(
        [refused.code, refused.detail],
        ['schema_violation', 'The query parameter "limit" is missing.'],
      )
    }
  })

  it('looks at nothing where the route has no operation for the method, or is in shadow mode', () => {
    assert.equal(validated({}), undefined)
    assert.equal(validated({ operations }, 'POST'), undefined)
    assert.equal(validated({ operations, isShadow: true }), undefined)
  })

  it('checks only what all services read alike: JSON in UTF-8, under any media range of the document', () => {
    const looked = (contentType: string, type = 'application/json') => {
      const content = [
        { type, parameters: undefined, fits: () => ({ pointer: '/a', reason: 'was looked at' }) },
      ]
      const { gateway } = makeGateway({
        requestRules: { get: () => ({ ...RULES, parameters: [], content }) },
      })
      const { exchange } = makeExchange({
        method: 'POST',
        headers: { 'Content-Type': contentType, 'Content-Length': '2' },
      })
      exchange.route = makeRoute({ operations: { POST: { path: '/a', pointer: '/p' } } })
      exchange.bufferedBody = Buffer.from('{}')
      const refused = validate(gateway, exchange)
      return refused && 'code' in refused ? (refused.detail ?? refused.code) : refused
    }
    const at = 'The request body at "/a": was looked at.'
    for (const charset of ['', '; charset=utf-8', ';charset="UTF-8"', '; a=b; charset=utf8 ; c=d']) {
      assert.equal(looked(`application/json${charset}`), at, charset)
    }
    const odd = ['utf-7', 'utf-16le', '"utf\\-7"', 'ibm037', '"utf-8']
    for (const charset of [
      ...odd.map((one) => `charset=${one}`),
      'charset*=utf-8',
      'charset=utf-8;CHARSET=utf-7',
    ]) {
      assert.equal(looked(`application/json; ${charset}`), 'The request body must be in UTF-8.', charset)
    }
    assert.equal(looked('application/json', '*/*'), at)
    assert.equal(looked('application/a+json', 'application/*'), at)
    assert.equal(looked('application/xml', '*/*'), undefined)
  })

  it('takes an empty body in memory for no body, for example of a webhook that ended with an empty frame', () => {
    for (const bodyRequired of [false, true]) {
      const content = [{ type: 'text/plain', parameters: undefined, fits: undefined }]
      const rules = { parameters: [], bodyRequired, content }
      const { gateway } = makeGateway({ requestRules: { get: () => rules } })
      const { exchange } = makeExchange({ method: 'POST', headers: { 'Transfer-Encoding': 'chunked' } })
      exchange.route = makeRoute({ operations: { POST: { path: '/a', pointer: '/p' } } })
      Object.assign(exchange.req, { body: { isEmpty: true } })
      exchange.bufferedBody = Buffer.alloc(0)
      const refused = validate(gateway, exchange)
      assert.equal(
        refused && 'code' in refused ? refused.detail : refused,
        bodyRequired ? 'A request body is needed.' : undefined,
      )
    }
  })

  it('waits for the first byte or the end of a chunked body, and takes an empty body for none', async () => {
    const begun = async (bodyRequired: boolean, isEmpty: boolean) => {
      const content = [{ type: 'text/plain', parameters: undefined, fits: undefined }]
      const rules = { parameters: [], bodyRequired, content }
      const { gateway } = makeGateway({ requestRules: { get: () => rules } })
      const headers = { 'Transfer-Encoding': 'chunked' }
      const { exchange } = makeExchange({ method: 'POST', headers, complete: false })
      exchange.route = makeRoute({ operations: { POST: { path: '/a', pointer: '/p' } } })
      let begin = () => {}
      const whenBegun = (run: () => void) => {
        begin = run
      }
      Object.assign(exchange.req, { body: { isEmpty: true }, whenBegun })
      const refused = validate(gateway, exchange)
      Object.assign(exchange.req, { body: { isEmpty }, complete: isEmpty })
      begin()
      return (await refused)?.code
    }
    assert.equal(await begun(false, true), undefined)
    assert.equal(await begun(true, true), 'schema_violation')
    assert.equal(await begun(true, false), 'unsupported_media_type')
  })

  it('checks a body by the described type with the same parameters, and refuses a type that fits two described types', () => {
    const looked = (contentType: string, names: readonly string[]) => {
      const schemas = names.map((name) => [name, { schema: { not: {}, description: name } }])
      const content = Object.fromEntries(schemas)
      const place = { path: '/a', pointer: '/paths/~1a/post' }
      const document = { paths: { '/a': { post: { requestBody: { content } } } } }
      const rules = new OperationRules(asJsonSchemas(document), [place]).get(place)
      assert.ok(rules)
      const told = rules.content?.map((one, at) => ({
        ...one,
        fits: () => ({ pointer: '', reason: String(at) }),
      }))
      const { gateway } = makeGateway({ requestRules: { get: () => ({ ...rules, content: told }) } })
      const { exchange } = makeExchange({
        method: 'POST',
        headers: { 'Content-Type': contentType, 'Content-Length': '2' },
      })
      exchange.route = makeRoute({ operations: { POST: place } })
      exchange.bufferedBody = Buffer.from('{}')
      const refused = validate(gateway, exchange)
      assert.ok(refused && 'code' in refused)
      return refused.detail?.startsWith('The request body ')
        ? Number(refused.detail.slice(17, -1))
        : refused.code
    }
    const versions = [
      'application/json;v=1',
      'application/json; V="2"',
      'application/json;v=2;x=y',
      'text/plain',
    ]
    const UNSUPPORTED = 'unsupported_media_type'
    for (const [contentType, found] of [
      ['application/json;v=1', 0],
      ['application/json; v=2', 1],
      ['Application/JSON ;charset=utf-8 ; v="1" ;', 0],
      ['application/json;x=Y;v=2', 2],
      ['application/json;x=z;v=2', 1],
      ['application/json', UNSUPPORTED],
      ['application/json;v=3', UNSUPPORTED],
      ['application/json;v=1;v=2', UNSUPPORTED],
      ['application/json;x=";v=1";v=2', 1],
      ['application/json;v=1;x="', UNSUPPORTED],
      ['application/json;v=1;v*=2 3', UNSUPPORTED],
    ] as const) {
      assert.equal(looked(contentType, versions), found, contentType)
    }
    const ofAspNet = ['application/json', 'text/json', 'application/*+json']
    for (const [contentType, found] of [
      ['text/json', 1],
      ['Text/JSON; charset=utf-8', 1],
      ['application/vnd.a+json', 2],
      ['application/vnd.a+b+json', 2],
      ['application/vnd.a+xml', UNSUPPORTED],
      ['application/x-www-form-urlencoded,+json', UNSUPPORTED],
      ['application/x-www-form-urlencoded +json', UNSUPPORTED],
    ] as const)
      assert.equal(looked(contentType, ofAspNet), found, contentType)
    const { user } = process.cpuUsage()
    for (const character of ['/', '+', 'a']) {
      const long = `application/${character.repeat(64_000)}`
      for (const type of [long, `${long}+`, `${long}+,`])
        assert.equal(looked(type, ofAspNet), UNSUPPORTED, character)
    }
    assert.ok(process.cpuUsage().user - user < 1_000_000, 'the time grows with the square of the length')
    assert.equal(looked('application/json;v=3', ['application/json;v=1', 'application/json']), 1)
    assert.equal(looked('application/json;v=3', ['application/json;v=1', '*/*', 'application/json;v=2']), 1)
    assert.equal(looked('application/json;v=1;v=3', [...versions, '*/*']), UNSUPPORTED)
    assert.equal(
      looked('application/json;a=1;b=1', ['application/json;a=1', 'application/json;b=1']),
      UNSUPPORTED,
    )
    // A type that is described once matches, whatever the parameters are.
    for (const contentType of ['application/json', 'application/json;v=1;v=2'])
      assert.equal(looked(contentType, ['application/json; charset=utf-8', 'text/plain']), 0)
  })
})
