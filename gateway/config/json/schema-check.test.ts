import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { describeValue, schemaCheck } from './schema-check.ts'

const check = schemaCheck({
  type: 'object',
  required: ['window'],
  additionalProperties: false,
  properties: {
    window: {
      type: 'string',
      minLength: 1,
      maxLength: 4,
      pattern: '^[0-9]+s$',
      patternErrorMessage: 'must be seconds',
    },
    code: { type: 'string', pattern: '^[A-Z]+$' },
    count: { type: 'integer', minimum: 1, maximum: 9 },
    share: { type: 'number' },
    mode: { enum: ['on', 'off', 'auto'], default: 'on' },
    only: { enum: ['written'] },
    some: { enum: ['tls', true, false] },
    list: { type: 'array', minItems: 1, uniqueItems: true, items: { type: 'string' } },
    either: { type: ['string', 'array'], items: { type: 'string' } },
    flag: { type: 'boolean' },
  },
})

function problems(value: unknown): string[] {
  return check(value).problems.map(({ path, reason }) => `${path}: ${reason}`)
}

test('each kind of fault has a sentence that names what was found and what is allowed', () => {
  const cases: [part: object, sentence: string][] = [
    [{ window: undefined }, '$.window: is missing'],
    [{ window: 5 }, '$.window: must be text, but is 5; did you mean "5s"?'],
    [{ window: 1.5 }, '$.window: must be text, but is 1.5'],
    [{ window: [5] }, '$.window: must be text, but is an array'],
    [{ window: '60' }, '$.window: must be seconds, but is "60"; did you mean "60s"?'],
    [{ window: '5 S' }, '$.window: must be seconds, but is "5 S"; did you mean "5s"?'],
    [{ window: '5sec' }, '$.window: must be seconds, but is "5sec"; did you mean "5s"?'],
    [{ window: '5ms' }, '$.window: must be seconds, but is "5ms"'],
    [{ window: '5m' }, '$.window: must be seconds, but is "5m"'],
    [{ window: '' }, '$.window: must not be empty'],
    [{ window: '😀😀😀😀😀' }, '$.window: must have at most 4 characters, but has 5'],
    [{ code: 'a' }, '$.code: must match ^[A-Z]+$, but is "a"'],
    [{ count: 0 }, '$.count: must be between 1 and 9, but is 0'],
    [{ count: 10 }, '$.count: must be between 1 and 9, but is 10'],
    [{ count: 1.5 }, '$.count: must be a whole number, but is 1.5'],
    [{ count: '5' }, '$.count: must be a whole number, but is "5"; did you mean 5?'],
    [{ share: '0.5' }, '$.share: must be a number, but is "0.5"'],
    [{ mode: 'autp' }, '$.mode: must be "on", "off" or "auto", but is "autp"; did you mean "auto"?'],
    [{ mode: 7 }, '$.mode: must be "on", "off" or "auto", but is 7'],
    [{ some: 'tsl' }, '$.some: must be "tls", true or false, but is "tsl"; did you mean "tls"?'],
    [{ some: 'true' }, '$.some: must be "tls", true or false, but is "true"'],
    [{ only: 'synced' }, '$.only: must be "written", but is "synced"'],
    [{ list: [] }, '$.list: must not be empty'],
    [{ list: ['a', 'b', 'a'] }, '$.list: must not hold "a" twice'],
    [{ list: {} }, '$.list: must be an array, but is an object'],
    [{ either: null }, '$.either: must be text or an array, but is null'],
    [{ either: [1] }, '$.either[0]: must be text, but is 1'],
    [{ flag: [] }, '$.flag: must be true or false, but is an empty array'],
    [{ wndow: 1 }, '$.wndow: is not a known key; did you mean "window"?'],
  ]
  for (const [part, sentence] of cases) {
    assert.deepEqual(problems(JSON.parse(JSON.stringify({ window: '1s', ...part }))), [sentence])
  }
})

test('a key that resembles none is answered with the keys there are', () => {
  const [sentence] = problems({ window: '1s', zzzzzz: 1 })
  assert.match(sentence ?? '', /^\$\.zzzzzz: is not a known key; the keys are "window", .* and "flag"$/)
})

test('a misspelt key is one fault and not a missing key too, but the key that was meant is not sound', () => {
  const { problems: named, unsound } = check({ windw: '1s' })
  assert.deepEqual(
    named.map(({ path }) => path),
    ['$.windw'],
  )
  assert.deepEqual(unsound.toSorted(), ['$.window', '$.windw'])
})

test('all faults are named at once', () => {
  assert.equal(problems({ count: 0, mode: 'x', list: [], extra: 1 }).length, 5)
})

test('a missing key is filled with the default of the schema', () => {
  const value = { window: '1s' }
  assert.deepEqual(check(value), { problems: [], unsound: [], more: 0 })
  assert.deepEqual(value, { window: '1s', mode: 'on' })
})

test('a long value is shown shortened', () => {
  assert.equal(describeValue('x'.repeat(500)).length, 80)
  assert.equal(describeValue('x'.repeat(78)), `"${'x'.repeat(78)}"`)
  assert.equal(describeValue([1]), 'an array')
})

for (const name of ['gateway', 'limits', 'clients']) {
  const text = readFileSync(new URL(`../../../config/schemas/${name}.schema.json`, import.meta.url), 'utf8')

  test(`every key of ${name}.schema.json has description and examples for an operator's editor`, () => {
    JSON.parse(text, (key, value) => {
      if (key !== 'properties') return value
      for (const [property, { description, examples }] of Object.entries<Record<string, unknown>>(value)) {
        assert.ok(description && Array.isArray(examples), property)
      }
      return value
    })
  })

  test(`every example and default in ${name}.schema.json is allowed by its own key`, () => {
    const schema = JSON.parse(text)
    JSON.parse(text, (key, value) => {
      if (key !== 'properties') return value
      for (const [property, part] of Object.entries<{ examples: unknown[]; default?: unknown }>(value)) {
        const checkPart = schemaCheck({ type: 'object', properties: { [property]: part } })
        const samples = part.default === undefined ? part.examples : [...part.examples, part.default]
        for (const sample of samples) {
          assert.deepEqual(checkPart({ [property]: structuredClone(sample) }).problems, [], property)
        }
      }
      return value
    })
    assert.equal(schema.$schema, 'https://json-schema.org/draft/2020-12/schema')
  })
}

test('of very many faults only the first are put into words; the rest is counted', () => {
  const { problems, unsound, more } = check(
    Object.fromEntries(Array.from({ length: 30_000 }, (_, index) => [`key${index}`, 1])),
  )
  assert.equal(problems.length, 10_000)
  assert.equal(problems[0]?.path, '$.key0')
  assert.equal(more, 20_001)
  assert.deepEqual(unsound, ['$'])
})

test('an object that cannot become a text is a fault in the place of a text, a number or a choice', () => {
  for (const part of [{ type: 'string' }, { type: 'integer' }, { enum: ['a'] }]) {
    const checkPart = schemaCheck({ type: 'object', properties: { part } })
    const { problems } = checkPart({ part: { toString: null } })
    assert.match(problems[0]?.reason ?? '', /, but is an object$/)
  }
  const limits = { limits: { type: 'array', items: { properties: { per: { enum: ['caller'] } } } } }
  const { problems } = schemaCheck({ properties: limits })({ limits: [{ per: { toString: null } }] })
  assert.match(problems[0]?.reason ?? '', /, but is an object$/)
})
