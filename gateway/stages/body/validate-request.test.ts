import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { RequestRules } from '../../config/openapi/compiled-operations.ts'
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
      segment: -1,
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

  it('checks only what services read as the same: JSON under any described range, in UTF-8', () => {
    const looked = (contentType: string, type = 'application/json') => {
      const content = [{ type, fits: () => ({ pointer: '/a', reason: 'was looked at' }) }]
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
})
