import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type OperationPlace, OperationRules } from './compiled-operations.ts'
import { asJsonSchemas } from './openapi-schemas.ts'

/** What is wrong with a JSON body of `POST /a`, as `pointer reason`. */
function checker(schema: object, components: object = {}) {
  const document = {
    paths: { '/a': { post: { requestBody: { content: { 'application/json': { schema } } } } } },
    components,
  }
  const place = { path: '/a', pointer: '/paths/~1a/post' }
  const rules = new OperationRules(asJsonSchemas(document), [place]).get(place)
  return (value: unknown) => {
    const misfit = rules?.content?.[0]?.fits?.(value)
    return misfit && `${misfit.pointer} ${misfit.reason}`
  }
}

test('a pattern that a backtracking engine takes exponential time for refuses a text, and goes on for others', () => {
  const check = checker({ type: 'array', items: { pattern: '^(a+)+$' } })
  assert.match(check(['aaaa', `${'a'.repeat(100_000)}b`]) ?? '', /^\/1 must match pattern/)
  assert.equal(check(['aaaa', 'aaaaaaaaaaaaaaaa']), undefined)
})

test('a pattern means the same by the flag u as without, also as the name of members', () => {
  const name = checker({ pattern: "^[\\p{L}\\-\\' ]+$" })
  assert.equal(name("José O'Neill"), undefined)
  assert.match(name('p{L}') ?? '', /must match pattern/)
  const members = checker({
    patternProperties: { '^\\p{L}\\-$': { type: 'string' } },
    additionalProperties: false,
  })
  assert.equal(members({ 'é-': 'a' }), undefined)
  assert.equal(members({ 'é-': 1 }), '/é- must be string')
  assert.equal(members({ 'p-1': 'a' }), '/p-1 is not among the known members')
})

test('an operation that skips patterns is checked for everything else, and another one with the same schema is not', () => {
  const Name = { type: 'string', maxLength: 9, allOf: [{ pattern: '^(a+)\\1$' }, { pattern: '^[a-z]+$' }] }
  const post = {
    requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Name' } } } },
  }
  const document = asJsonSchemas({
    paths: { '/a': { post }, '/b': { post } },
    components: { schemas: { Name } },
  })
  const [skipping, other] = ['/a', '/b'].map((path) => ({ path, pointer: `/paths/~1${path.slice(1)}/post` }))
  const rules = new OperationRules(document, [
    { ...skipping, skipsPatterns: true } as OperationPlace,
    other as OperationPlace,
  ])
  assert.deepEqual(
    rules.check().map(({ pointer }) => pointer),
    ['/paths/~1b/post/requestBody/content/application~1json/schema'],
  )
  const fits = rules.get({ ...skipping, skipsPatterns: true } as OperationPlace)?.content?.[0]?.fits
  assert.equal(fits?.('abc'), undefined)
  assert.match(fits?.('ABC')?.reason ?? '', /must match pattern/)
  assert.match(fits?.('abcabcabcabc')?.reason ?? '', /more than 9/)
})

test('texts are counted with what their pattern takes for each letter, and too many are refused', () => {
  const texts = (text: string, count: number) => Array.from({ length: count }, () => text)
  const text = `${'ab '.repeat(20)}x`
  const costly = checker({ type: 'array', items: { pattern: '[ab ]*a[ab ]{100}$' } })
  assert.match(costly(texts(text, 3)) ?? '', /must match pattern/)
  const known = checker({ type: 'array', items: { pattern: '[a-z]+ [a-z]+ [a-z]+$' } })
  assert.equal(known(texts(text, 20_000)), undefined)
  assert.equal(known(texts(text, 60_000)), ' is too complex to be checked')
  assert.equal(known([`${'ab '.repeat(340_000)}x`]), undefined)
  const open = checker({ type: 'array', items: { pattern: 'b[ab ]{0,300}c$' } })
  assert.match(open([text]) ?? '', /must match pattern/)
})

test('repetitions inside one another are matched in bounded time, and many texts in one body', () => {
  const texts = (text: string, count: number) => Array.from({ length: count }, () => text)
  for (const pattern of [
    '^(\\w{1,30}\\s?){1,20}$',
    '^(\\w+\\s?){1,10}$',
    '^(?:\\w+){12}$',
    '^((\\w{1,99}){0,4}\\s?){0,4}$',
    '^(?:[A-Z0-9a]{1,8}-?){1,20}$',
  ]) {
    assert.match(checker({ pattern })(`${'a'.repeat(400)}!`) ?? '', /must match pattern/, pattern)
  }
  for (const [pattern, text, count] of [
    ['^[^@]{1,64}@[^@]{1,255}$', 'somebody@some.example', 20_000],
    ['^(?:[A-Z0-9]{1,8}-?){1,20}$', 'AB12-CD34-EF', 2000],
    ['^[A-Z]{2}[0-9]{2}[A-Z0-9]{4}[0-9]{7}([A-Z0-9]?){0,16}$', 'DE89370400440532013000', 20_000],
    ['^[A-Z][a-z]{1,30}(?: [A-Z][a-z]{1,30}){0,4}$', 'Anna Maria Lopez', 20_000],
  ] as const) {
    assert.equal(checker({ type: 'array', items: { pattern } })(texts(text, count)), undefined, pattern)
  }
})
