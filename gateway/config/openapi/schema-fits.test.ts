import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import * as body from './body-checks.test-support.ts'

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
const kind = (name: string) => ({ type: 'string', enum: [name] })
const SCHEMAS = {
  Order: {
    type: 'object',
    required: ['id', 'total'],
    properties: { id: { type: 'string' }, total: { type: 'number' } },
  },
  Cat: { type: 'object', required: ['kind', 'lives'], properties: { kind: kind('cat') } },
  Dog: {
    type: 'object',
    required: ['kind', 'breed'],
    properties: {
      kind: kind('dog'),
      breed: { anyOf: [{ type: 'integer' }, { type: 'string', maxLength: 3 }] },
    },
  },
}
const checker = (schema: object, schemas: object = SCHEMAS) => body.checker(schema, { schemas })
const PET = {
  oneOf: [ref('Cat'), ref('Dog')],
  discriminator: { propertyName: 'kind', mapping: { cat: '#/components/schemas/Cat', dog: 'Dog' } },
}

test('for a reference that may be null the missing member is named, not the alternative null', () => {
  for (const order of [
    { nullable: true, allOf: [ref('Order')] },
    { nullable: true, ...ref('Order') },
    { oneOf: [ref('Order'), { type: 'null' }] },
  ]) {
    const check = checker({ properties: { order } })
    assert.equal(check({ order: { id: 'a' } }), '/order/total is missing')
    assert.equal(check({ order: { id: 1, total: 1 } }), '/order/id must be string')
    assert.equal(check({ order: null }), undefined)
  }
})

test('a discriminator says which alternative was meant, with a mapping, by the name of a schema, and beside null', () => {
  for (const pet of [PET, { ...PET, nullable: true }, { ...PET, oneOf: undefined, anyOf: PET.oneOf }]) {
    const check = checker({ properties: { pet } })
    assert.equal(check({ pet: { kind: 'dog' } }), '/pet/breed is missing')
    assert.equal(check({ pet: { kind: 'cat' } }), '/pet/lives is missing')
    assert.equal(
      check({ pet: { kind: 'dog', breed: 'long' } }),
      '/pet/breed must NOT have more than 3 characters',
    )
    assert.equal(check({ pet: { kind: 'cow' } }), '/pet/kind must be equal to one of the allowed values')
    assert.equal(check({ pet: {} }), '/pet/kind is missing')
    assert.equal(check({ pet: { kind: 'cat', lives: 9 } }), undefined)
  }
  const implicit = checker({ ...PET, discriminator: { propertyName: 'type' } })
  assert.equal(implicit({ type: 'Dog' }), '/kind is missing')
  assert.equal(implicit({ type: 'Dog', kind: 'dog' }), '/breed is missing')
  const byDefault = checker({ ...PET, discriminator: { propertyName: 'type', defaultMapping: 'Dog' } })
  assert.equal(byDefault({ kind: 'dog' }), '/breed is missing')
})

test('a discriminator that is no text fits nothing, even if it cannot become a text', () => {
  const check = checker({ properties: { pet: PET } })
  for (const kind of [{ toString: null }, [{ toString: null }], null]) {
    const misfit = check({ pet: { kind } })
    assert.equal(misfit, '/pet/kind must be equal to one of the allowed values', JSON.stringify(kind))
  }
})

test('without a discriminator, the fault is that of the alternative that fails deepest in the value', () => {
  const check = checker({
    type: 'array',
    items: {
      oneOf: [
        { type: 'string' },
        { type: 'array', contains: { type: 'object', required: ['x'] } },
        { type: 'object', required: ['a'], properties: { a: { anyOf: [{ type: 'null' }, ref('Order')] } } },
      ],
    },
  })
  assert.equal(check([{ a: { id: 'x' } }]), '/0/a/total is missing')
  assert.equal(check(['x', { a: { id: 'x', total: '1' } }]), '/1/a/total must be number')
  assert.equal(check([{}]), '/0/a is missing')
  assert.equal(check([5]), '/0 must be string or array or object')
})

test('the fault of a value that fits several alternatives of oneOf says so', () => {
  const check = checker({ properties: { a: { oneOf: [{ type: 'null' }, { minimum: 1 }, { maximum: 9 }] } } })
  assert.equal(check({ a: 5 }), '/a fits more than one of the alternatives, and must fit exactly one')
  const inBranch = checker({
    anyOf: [
      { properties: { a: { oneOf: [{ type: 'null' }, { minimum: 1 }, { maximum: 9 }] } } },
      { properties: { a: { properties: { b: { type: 'string' } }, required: ['b'] } }, required: ['b'] },
    ],
  })
  assert.equal(inBranch({ a: 5 }), '/a fits more than one of the alternatives, and must fit exactly one')
})

test('a misfit of "else" or propertyNames says what its schema asks for', () => {
  const check = checker({
    if: { maxProperties: 0 },
    else: { required: ['b'] },
    propertyNames: { maxLength: 3 },
  })
  assert.equal(check({ a: 1 }), '/b is missing')
  assert.equal(check({ b: 1, long: 1 }), ' must NOT have more than 3 characters')
})

test('a value is too complex also when the stack ends while its fault is put into words', () => {
  let node: object = { type: 'object', properties: { a: ref('Node') } }
  for (let level = 0; level < 20; level++) node = { anyOf: [{ type: 'string' }, node] }
  const check = checker(ref('Node'), { Node: node })
  let value: unknown = 5
  for (let depth = 1; depth <= 500; depth++) {
    value = { a: value }
    if (depth % 100 === 0) assert.match(check(value) ?? '', / must be string or object$| is too complex/)
  }
})

test('whatever alternatives are nested, a value that does not fit gets a sentence about one of its places', () => {
  const { schema: SCHEMA } = fc.letrec<{ schema: object }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom({ type: 'string' }, { type: 'null' }, { minimum: 2 }, { required: ['a'] }),
      fc.record({ oneOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ type: fc.constant('object'), properties: fc.record({ a: tie('schema') }) }),
      fc.record({ type: fc.constant('array'), contains: tie('schema') }),
      fc.record({ not: tie('schema') }),
    ),
  }))
  const VALUE = fc.jsonValue({ maxDepth: 3 }).map((a) => ({ a }))
  fc.assert(
    fc.property(fc.array(fc.tuple(SCHEMA, VALUE), { minLength: 10, maxLength: 10 }), (cases) => {
      for (const [i, check] of body.checkers(cases.map(([schema]) => schema)).entries()) {
        const { a } = cases[i]?.[1] ?? assert.fail()
        for (const one of [{ a }, a, [{ a }], null, 'x', 1]) {
          const said = check(one)
          assert.ok(said === undefined || /^(?:\/\S*)? \S/.test(said), String(said))
        }
      }
    }),
    { numRuns: 10 },
  )
})
