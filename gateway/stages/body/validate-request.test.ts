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
  const { gateway } = makeGateway({ requestRules: new Map([['/paths/~1a/get', RULES]]) })
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
})
