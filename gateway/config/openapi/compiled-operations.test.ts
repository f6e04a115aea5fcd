import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { checker } from './body-checks.test-support.ts'
import { OperationRules } from './compiled-operations.ts'
import { asJsonSchemas } from './openapi-schemas.ts'

function rulesOf(method: 'get' | 'post', operation: object, components: object = {}) {
  const document = { paths: { '/a': { [method]: operation } }, components }
  const place = { path: '/a', pointer: `/paths/~1a/${method}` }
  return new OperationRules(asJsonSchemas(document), [place]).get(place)
}

/** CPU time of this process, to which other processes of a busy machine do not add. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

test('a misfit has the pointer of its place, or of the member that is missing or unknown', () => {
  const check = checker({
    type: 'object',
    required: ['a'],
    additionalProperties: false,
    properties: { a: { type: 'string' }, 'b/c': { type: 'array', items: { type: 'integer', maximum: 3 } } },
  })
  assert.equal(check({ a: 'x', 'b/c': [1, 2] }), undefined)
  assert.equal(check({}), '/a is missing')
  assert.equal(check({ a: 1 }), '/a must be string')
  assert.equal(check({ a: 'x', d: 1 }), '/d is not among the known members')
  assert.equal(check({ a: 'x', 'b/c': [1, 9] }), '/b~1c/1 must be <= 3')
  assert.ok((check({ a: 'x', ['y'.repeat(5000)]: 1 }) ?? '').length < 300)
})

test('a readOnly member is not required, whichever schemas of the value require or declare it', () => {
  const schemas = {
    Base: { type: 'object', properties: { id: { allOf: [{ $ref: '#/components/schemas/Id%20of%20it' }] } } },
    'Id of it': { type: 'string', readOnly: true },
  }
  const base = { $ref: '#/components/schemas/Base' }
  for (const schema of [
    { allOf: [base, { required: ['id', 'name'], properties: { name: { type: 'string' } } }] },
    { allOf: [base], required: ['id', 'name'] },
    { ...base, required: ['id', 'name'] },
  ]) {
    const check = checker(schema, { schemas })
    assert.equal(check({ name: 'x' }), undefined)
    assert.equal(check({ id: 'x' }), '/name is missing')
  }
})

test('nullable allows null beside allOf and $ref too', () => {
  const schemas = { Name: { type: 'string' } }
  const name = { $ref: '#/components/schemas/Name' }
  const check = checker(
    {
      properties: {
        all: { nullable: true, allOf: [name] },
        ref: { nullable: true, ...name },
        bare: { nullable: true },
        not: { nullable: false },
      },
    },
    { schemas },
  )
  assert.equal(check({ all: null, ref: null, bare: null, not: 1 }), undefined)
  assert.equal(check({ all: 'a', ref: 'b', bare: {} }), undefined)
  for (const member of ['all', 'ref']) assert.match(check({ [member]: 1 }) ?? '', new RegExp(`^/${member}`))
})

test('beside a reference only nullable and readOnly count in OpenAPI 3.0, and every keyword in 3.1', () => {
  const schemas = {
    Country: { type: 'string', maxLength: 2 },
    Body: {
      type: 'object',
      required: ['country', 'id'],
      properties: {
        country: { $ref: '#/components/schemas/Country', nullable: true, type: 'object', maxLength: 1 },
        id: { $ref: '#/components/schemas/Country', readOnly: true },
        $ref: { type: 'string' },
      },
    },
  }
  const body = { $ref: '#/components/schemas/Body' }
  const check = checker(body, { schemas }, '3.0.3')
  assert.equal(check({ country: 'DE' }), undefined)
  assert.equal(check({ country: null }), undefined)
  assert.equal(check({ country: 'DEU' }), '/country must NOT have more than 2 characters')
  assert.equal(check({ country: null, $ref: 1 }), '/$ref must be string')
  assert.match(checker(body, { schemas })({ country: 'DE' }) ?? '', /^\/country must/)
})

test('long lists of values and branches are counted, and no body makes the check compare millions', () => {
  const codes = Array.from({ length: 1000 }, (_, i) => `code ${i}`)
  const many = (count: number) => Array.from({ length: count }, () => 'code 999')
  const values = checker({ type: 'array', items: { enum: codes } })
  assert.equal(values(many(5000)), undefined)
  assert.equal(values(many(100_000)), ' is too complex to be checked')
  const branches = checker({
    type: 'array',
    items: { oneOf: codes.slice(0, 50).map((code) => ({ const: code })) },
  })
  assert.equal(branches(Array.from({ length: 50_000 }, () => 'code 49')), ' is too complex to be checked')
  // The operation that is compiled next does not pay for it.
  assert.equal(checker({ required: ['a'] })({}), '/a is missing')
})

test('references are followed within the document, recursive ones too, and members of Object.prototype are ignored', () => {
  const tree = {
    type: 'object',
    required: ['toString'],
    properties: { child: { $ref: '#/components/schemas/Tree' } },
  }
  const check = checker({ $ref: '#/components/schemas/Tree' }, { schemas: { Tree: tree } })
  assert.equal(check({ toString: 1, child: { toString: 2 } }), undefined)
  assert.equal(check({ toString: 1, child: {} }), '/child/toString is missing')
})

test('what does not change the meaning of a component is no fault in it', () => {
  const data = { $ref: '#/components/x-data' }
  const components = (schema: object) => ({ 'x-data': { type: 'no type' }, schemas: { It: schema } })
  for (const harmless of [
    { $schema: 'http://json-schema.org/draft-07/schema#' },
    { $schema: 'https://spec.openapis.org/oas/3.1/dialect/base' },
    { 'x-own': data },
    { default: data },
    { properties: { b: { const: data, enum: [data], example: data, examples: [data] } } },
    { required: ['a', 'a'] },
    { properties: { b: { readOnly: 'true', writeOnly: 'true', $comment: 1 } } },
  ]) {
    const check = checker({ $ref: '#/components/schemas/It' }, components({ required: ['a'], ...harmless }))
    assert.equal(check({}), '/a is missing')
    assert.equal(check({ a: 1 }), undefined)
  }
  for (const name of ['x-own', 'default', 'const', 'enum', 'example', 'examples', '$ref'])
    assert.throws(
      () => checker({ $ref: '#/components/schemas/It' }, components({ properties: { [name]: data } })),
      /is not a valid schema/,
    )
})

test('keywords of OpenAPI 3.0 are understood, and examples are ignored', () => {
  const check = checker(
    {
      type: 'object',
      required: ['id', 'n', 'r'],
      properties: {
        id: { type: 'string', readOnly: true },
        r: { $ref: '#/components/schemas/Id' },
        n: {
          type: 'integer',
          nullable: true,
          minimum: 0,
          exclusiveMinimum: true,
          maximum: 9,
          exclusiveMaximum: false,
        },
        e: { type: 'string', nullable: true, enum: ['a'] },
      },
      example: { nullable: true, type: 'no schema' },
    },
    { schemas: { Id: { type: 'string', readOnly: true } } },
  )
  assert.equal(check({ n: null, e: null }), undefined)
  assert.equal(check({ n: 9 }), undefined)
  assert.equal(check({ n: 0 }), '/n must be > 0')
  assert.equal(check({}), '/n is missing')
})

test('a text may be one of values that are numbers or booleans in YAML for want of quotes', () => {
  const check = checker({ type: 'string', nullable: true, enum: [3, true, 'a', null] })
  for (const value of ['3', 'true', 'a', null]) assert.equal(check(value), undefined)
  for (const value of [3, true, '4']) assert.ok(check(value))
  assert.ok(checker({ enum: [3] })('3'))
})

test('a check does not change the body', () => {
  const check = checker({ type: 'object', properties: { a: { type: 'integer', default: 5 } } })
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const before = JSON.stringify(value)
      check(value)
      assert.equal(JSON.stringify(value), before)
    }),
  )
})

test('a known format is checked, and another is ignored', () => {
  const check = checker({
    properties: { d: { format: 'date' }, t: { format: 'date-time' }, u: { format: 'unheard-of' } },
  })
  assert.equal(check({ d: '2024-02-29', t: '2024-02-29T23:59:60Z', u: 'anything' }), undefined)
  assert.equal(check({ d: '2023-02-29' }), '/d must match format "date"')
  assert.equal(check({ t: '2024-02-29 10:00' }), '/t must match format "date-time"')
})

test('many entries that must differ are compared in time that grows with their number', () => {
  const check = checker({ type: 'array', uniqueItems: true })
  const entries = Array.from({ length: 50_000 }, (_, i) => ({ a: i, b: { c: i } }))
  const startMs = cpuMs()
  assert.equal(check(entries), undefined)
  assert.ok(cpuMs() - startMs < 10_000)
  assert.match(check([...entries, { b: { c: 7 }, a: 7 }]) ?? '', /must not have equal entries/)
})

test('the work on recursive alternatives, which doubles at each level of a body, is bounded', () => {
  const branch = (op: string) => ({
    type: 'object',
    properties: { of: { $ref: '#/components/schemas/Filter' }, op: { const: op } },
    required: ['op'],
  })
  const schemas = { Filter: { oneOf: [branch('not'), branch('maybe')] } }
  const check = checker({ $ref: '#/components/schemas/Filter' }, { schemas })
  const nested = (levels: number): object =>
    levels === 0 ? { op: 'not' } : { of: nested(levels - 1), op: 'not' }
  assert.equal(check(nested(5)), undefined)
  const startMs = cpuMs()
  assert.equal(check(nested(60)), ' is too complex to be checked')
  assert.ok(cpuMs() - startMs < 5000)
})

test('a schema that many members refer to is compiled once, because the first request waits', () => {
  const properties = Object.fromEntries(
    Array.from({ length: 20 }, (_, i) => [`m${i}`, { type: 'string', maxLength: i }]),
  )
  const refs = Array.from({ length: 500 }, (_, i) => [`r${i}`, { $ref: '#/components/schemas/Many' }])
  const begin = cpuMs()
  const check = checker({ properties: Object.fromEntries(refs) }, { schemas: { Many: { properties } } })
  assert.equal(check({ r7: { m2: 'abc' } }), '/r7/m2 must NOT have more than 2 characters')
  assert.ok(cpuMs() - begin < 2000)
})

test('a body of many members is checked as a whole', () => {
  const check = checker({ type: 'array', items: { type: 'object', properties: { a: { type: 'integer' } } } })
  assert.equal(check(Array.from({ length: 100_000 }, (_, a) => ({ a }))), undefined)
})

test('multiples are decimal, as amounts are, and 1e400 is no number', () => {
  const check = checker({ multipleOf: 0.01 })
  for (const amount of [19.99, 0.07, 4.35, -1.1, 123456789012.34, 1e300, 0, 3]) {
    assert.equal(check(amount), undefined, String(amount))
  }
  assert.equal(check(19.999), ' must be a multiple of 0.01')
  assert.equal(check(1e-7), ' must be a multiple of 0.01')
  assert.equal(checker({ multipleOf: 5 })(12), ' must be a multiple of 5')
  assert.equal(checker({ type: 'integer' })(JSON.parse('1e400')), ' must be integer')
  assert.equal(checker({ type: 'number', minimum: 0 })(JSON.parse('1e400')), ' must be number')
  const list = checker({ type: 'array', items: { multipleOf: 0.01 } })
  assert.equal(list(Array.from({ length: 100_000 }, () => 19.99)), undefined)
  assert.equal(list(Array.from({ length: 150_000 }, () => 1e300)), ' is too complex to be checked')
})

test('digits beyond the fifteenth may not count, as docs/operate/configuration.md says', () => {
  const check = (schema: object, text: string) => checker(schema)(JSON.parse(text))
  assert.equal(check({ maximum: 9007199254740992 }, '9007199254740993'), undefined)
  assert.equal(check({ multipleOf: 0.01 }, '0.010000000000000000001'), undefined)
  assert.equal(check({ multipleOf: 0.01 }, '1234567890123.45'), undefined)
  assert.equal(check({ multipleOf: 0.01 }, '123456789012.345'), ' must be a multiple of 0.01')
})

test('under a range of media types an object is checked as JSON, and a file is not checked', () => {
  const content = {
    '*/*': { schema: { $ref: '#/components/schemas/Any' } },
    'application/*': { schema: { type: 'string', format: 'binary' } },
  }
  const schemas = { Any: { allOf: [{ type: 'object', required: ['a'] }] } }
  const [any, file] = rulesOf('post', { requestBody: { content } }, { schemas })?.content ?? []
  assert.deepEqual(any?.fits?.({}), { pointer: '/a', reason: 'is missing' })
  assert.equal(file?.fits, undefined)
})

test('a parameter that may be null is checked like any other', () => {
  const named = { name: 'status', in: 'query' }
  for (const schema of [
    { type: 'string', nullable: true, enum: ['a', 'b'] },
    { type: ['string', 'null'], enum: ['a', 'b', null] },
    { anyOf: [{ const: 'a' }, { const: 'b' }, { const: null }] },
  ]) {
    const [status] = rulesOf('get', { parameters: [{ ...named, schema }] })?.parameters ?? []
    assert.equal(status?.form, 'single')
    assert.equal(status?.fits('a'), undefined)
    assert.notEqual(status?.fits('zzz'), undefined)
  }
})

test('a schema that applies itself to the same value refuses that value', () => {
  const schemas = {
    Pet: { oneOf: [{ $ref: '#/components/schemas/Cat' }] },
    Cat: { allOf: [{ type: 'object', required: ['a'] }, { $ref: '#/components/schemas/Pet' }] },
  }
  const check = checker({ $ref: '#/components/schemas/Pet' }, { schemas })
  assert.equal(check({ a: 1 }), ' is too complex to be checked')
})

test('a member that another one needs is missing, not unknown', () => {
  const check = checker({ dependentRequired: { a: ['b'] } })
  assert.equal(check({ a: 1 }), '/b is missing')
})

test('a parameter in JSON is read whatever parameters its media type has', () => {
  const content = { 'Application/JSON; charset=utf-8': { schema: { type: 'object' } } }
  const [filter] =
    rulesOf('get', { parameters: [{ name: 'filter', in: 'query', content }] })?.parameters ?? []
  assert.equal(filter?.form, 'json')
  assert.notEqual(filter?.fits(5), undefined)
})
