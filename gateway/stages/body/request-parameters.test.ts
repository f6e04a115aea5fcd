import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OperationRules } from '../../config/openapi/compiled-operations.ts'
import { asJsonSchemas } from '../../config/openapi/openapi-schemas.ts'
import { fieldsOf } from '../../edge/syntax/field.test-support.ts'
import { parameterMisfit } from './request-parameters.ts'

/** Checks requests of `GET /a/{p}` by a parameter `p`. A text `pointer reason` says what is wrong. */
function checker(parameter: { in: 'path' | 'query' | 'header'; schema: object; [more: string]: unknown }) {
  const named = { name: 'p', explode: false, ...parameter }
  const place = { path: '/a/{p}', pointer: '/paths/~1a~1{p}/get' }
  const document = { paths: { '/a/{p}': { get: { parameters: [named] } } } }
  const rules = new OperationRules(asJsonSchemas(document), [place]).get(place)
  assert.ok(rules)
  return (text: string) => {
    const request = {
      path: parameter.in === 'path' ? `/a/${text}` : '/a/b',
      query: parameter.in === 'query' ? `?${text}` : '',
    }
    const fields = fieldsOf(parameter.in === 'header' ? ['P', text] : [])
    const misfit = parameterMisfit(rules, request, fields)
    return misfit && `${misfit.pointer} ${misfit.reason}`
  }
}

describe('a template that divides an octet', () => {
  it('is a misfit of the parameter that has the first half of the octet', () => {
    const place = { path: '/a/{p}9{q}', pointer: '/paths/x/get' }
    const parameters = ['p', 'q'].map((name) => ({ name, in: 'path', schema: { type: 'string' } }))
    const document = { paths: { x: { get: { parameters } } } }
    const rules = new OperationRules(asJsonSchemas(document), [place]).get(place)
    assert.ok(rules)
    const misfit = parameterMisfit(rules, { path: '/a/%C3%A9a', query: '' }, [])
    assert.deepEqual(
      [misfit?.parameter.name, misfit?.reason],
      ['p', 'must not split a percent-encoded octet'],
    )
    assert.equal(parameterMisfit(rules, { path: '/a/%C3%A39a', query: '' }, []), undefined)
  })
})

describe('a list of objects or lists', () => {
  it('is passed on unread, because OpenAPI defines no form for it, and may be required', () => {
    for (const items of [{ type: 'object' }, { type: 'array' }, { oneOf: [{ type: 'object' }] }])
      for (const explode of [true, false]) {
        const check = checker({ in: 'query', explode, required: true, schema: { type: 'array', items } })
        assert.equal(check('p=[{"a":1}]'), undefined)
        assert.equal(check('p=[1]&p=[2]'), undefined)
        assert.equal(check(''), ' is missing')
      }
  })
})

describe('a list with commas', () => {
  const pair = { type: 'array', maxItems: 2, items: { enum: ['a', 'b'] } }

  it('in a query is decoded before it is divided, as most services do: many clients encode the comma', () => {
    const numbers = checker({
      in: 'query',
      schema: { type: 'array', maxItems: 3, items: { type: 'integer' } },
    })
    for (const query of ['p=1,2,3', 'p=1%2C2,3', 'p=1%2c2%2C3', '&x=1&%70=1+,%202&y'])
      assert.equal(numbers(query), undefined, query)
    assert.equal(numbers('p=1%2C2%2C3,4'), ' must NOT have more than 3 items')
    assert.equal(numbers('p=1&p=2'), ' must occur once')
  })

  it('in a path or a header is divided at every comma: the service gets a path with plain commas', () => {
    const inPath = checker({ in: 'path', schema: pair })
    assert.equal(inPath('a,b'), undefined)
    assert.equal(inPath('a,b,a'), ' must NOT have more than 2 items')
    const inHeader = checker({ in: 'header', schema: pair })
    assert.equal(inHeader('a , b'), undefined)
    assert.match(inHeader('a%2Cb') ?? '', /^\/0 must be equal/)
  })
})

describe('a list of which an item may be a text or something else', () => {
  const either = {
    anyOf: [
      { type: 'integer', maximum: 3 },
      { type: 'string', minLength: 2 },
    ],
  }

  it('has each item read as a text where it does not fit otherwise, as a single value is', () => {
    for (const [name, lists] of [
      ['commas', { explode: false, of: (items: string[]) => `p=${items.join()}` }],
      ['repeated', { explode: true, of: (items: string[]) => items.map((item) => `p=${item}`).join('&') }],
    ] as const) {
      const { explode, of } = lists
      const check = checker({ in: 'query', explode, schema: { type: 'array', items: either } })
      for (const items of [['1'], ['55'], ['abc'], ['2', '55', 'abc', '3']])
        assert.equal(check(of(items)), undefined, name)
      assert.notEqual(check(of(['2', '55', '4'])), undefined)
      const items = { type: ['boolean', 'string'], enum: [true, 'false', 'x'] }
      const flags = checker({ in: 'query', explode, schema: { type: 'array', items } })
      assert.equal(flags(of(['true', 'false', 'x'])), undefined)
      assert.match(flags(of(['true', 'y'])) ?? '', /^\/1 must be equal/)
    }
    const single = checker({ in: 'query', schema: either })
    assert.deepEqual([single('p=2'), single('p=55')], [undefined, undefined])
    assert.notEqual(single('p=4'), undefined)
  })

  it('is checked in time even if a pattern is slow for each of many items', () => {
    const items = {
      anyOf: [
        { type: 'integer', maximum: 3 },
        { type: 'string', pattern: '^(\\d+)+x$' },
      ],
    }
    const check = checker({ in: 'query', schema: { type: 'array', items } })
    const { user } = process.cpuUsage()
    const digits = Array.from({ length: 400 }, (_, i) => `${10n ** 30n + BigInt(i)}`)
    assert.notEqual(check(`p=${digits.join()}`), undefined)
    assert.ok(process.cpuUsage().user - user < 10_000_000)
  })
})

describe('a list that is described by parts', () => {
  const ids = { type: 'array', items: { type: 'integer' } }

  it('fits the items of each part, as of `Optional[list[int]]` in Python', () => {
    for (const schema of [
      { anyOf: [ids, { type: 'null' }] },
      { allOf: [ids], description: 'beside a reference' },
      { allOf: [{ oneOf: [ids] }], nullable: true },
    ]) {
      const check = checker({ in: 'query', explode: true, schema })
      for (const query of ['p=1', 'p=1&p=2']) assert.equal(check(query), undefined)
      assert.match(check('p=1&p=x') ?? '', /^\/1 must be integer/)
    }
    const several = checker({
      in: 'query',
      explode: true,
      schema: { anyOf: [ids, { type: 'array', items: { type: 'string' } }] },
    })
    for (const query of ['p=1&p=2', 'p=1&p=x']) assert.equal(several(query), undefined)
  })

  it('may be one value instead', () => {
    const schema = { oneOf: [{ type: 'string', enum: ['all'] }, { type: 'integer', minimum: 10 }, ids] }
    for (const explode of [true, false]) {
      const check = checker({ in: 'query', explode, schema: { ...schema } })
      assert.deepEqual([check('p=all'), check('p=5')], [undefined, undefined])
      assert.notEqual(check('p=none'), undefined)
      assert.notEqual(check('p=all&p=all'), undefined)
    }
    assert.equal(checker({ in: 'header', schema })('all'), undefined)
  })
})

describe('a parameter in the query', () => {
  it('may be empty where `allowEmptyValue` says so', () => {
    const flag = { in: 'query', schema: { type: 'boolean' }, required: true } as const
    const check = checker({ ...flag, allowEmptyValue: true })
    for (const query of ['p', 'p=', 'p=true']) assert.equal(check(query), undefined)
    for (const query of ['', 'p=1']) assert.notEqual(check(query), undefined)
    assert.notEqual(checker(flag)('p='), undefined)
  })

  it('that is spread over others by `deepObject` need not have its own name, whatever its schema says', () => {
    const spread = { in: 'query', style: 'deepObject', required: true, schema: {} } as const
    assert.equal(checker(spread)('p[a]=1'), undefined)
  })
})
