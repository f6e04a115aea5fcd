import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { childPath, pathOfPointer } from './json-path.ts'
import { type Schema, schemaCheck } from './schema-check.ts'

const ODD = [
  '',
  '5',
  '1m',
  '/*',
  'CN=a',
  '😀',
  'whsec_x',
  -1,
  0,
  1,
  1.5,
  1e12,
  true,
  false,
  null,
  [],
  ['a', 'a'],
]
const KEYS = ['path', 'limit', 'window', 'file', 'wndow', '__proto__', 'odd key']
const ODD_VALUES = fc.oneof(fc.constantFrom<unknown>(...ODD), fc.jsonValue({ maxDepth: 2 }))

/** A change of one value somewhere: `at` chooses the way down, step by step. */
const CHANGE = fc.record({
  at: fc.array(fc.nat(1000), { maxLength: 6 }),
  key: fc.option(fc.constantFrom(...KEYS)),
  value: fc.option(ODD_VALUES, { nil: undefined }),
})

type Change = typeof CHANGE extends fc.Arbitrary<infer T> ? T : never

interface Example extends Schema {
  readonly properties?: Readonly<Record<string, Example>>
  readonly examples?: readonly unknown[]
}

for (const name of ['gateway', 'limits', 'clients']) {
  const file = new URL(`../../../config/schemas/${name}.schema.json`, import.meta.url)
  const schema: Example = JSON.parse(readFileSync(file, 'utf8'))

  test(`${name}.schema.json means to the gateway what it means to ajv, and so to editors`, () => {
    const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true, useDefaults: true })
    ajv.addVocabulary(['environment', 'restart', 'patternErrorMessage', 'errorMessage'])
    const validate = ajv.compile(schema)
    const check = schemaCheck(schema)
    const full = Object.entries(schema.properties ?? {}).map(([key, part]) => [key, part.examples?.[0]])
    const agree = (value: unknown) => {
      const [ours, theirs] = [value, structuredClone(value)]
      const { problems, unsound: found } = check(ours)
      // In a JSON pointer, a name of digits looks like a place in a list.
      const alike = (path: string) => path.replace(/\["(\d+)"\]/g, '[$1]')
      const unsound = found.map(alike)
      validate(theirs)
      const paths = (validate.errors ?? []).map(({ instancePath, params }) => {
        const key = params.missingProperty ?? params.additionalProperty
        const path = pathOfPointer(instancePath)
        return alike(key === undefined ? path : childPath(path, key))
      })
      const missed = paths.filter((path) => !unsound.includes(path))
      assert.deepEqual(missed, [])
      // ajv does not report repeated entries that have a wrong type.
      const extra = unsound.filter((path) => !paths.some((one) => one.startsWith(path)))
      assert.deepEqual(extra, [])
      assert.equal(problems.length === 0, paths.length === 0)
      assert.deepEqual(ours, theirs)
    }
    agree(Object.fromEntries(full))
    fc.assert(
      fc.property(fc.array(CHANGE, { minLength: 1, maxLength: 3 }), (changes) => {
        const value = structuredClone(Object.fromEntries(full))
        for (const change of changes) apply(value, change)
        agree(value)
      }),
      { numRuns: 1000 },
    )
  })
}

function apply(root: object, { at, key, value }: Change): void {
  let parent = root as Record<string, unknown>
  let last = ''
  for (const step of at) {
    const below = parent[last]
    if (last !== '' && (typeof below !== 'object' || below === null)) break
    if (last !== '') parent = below as Record<string, unknown>
    const keys = Object.keys(parent)
    last = keys[step % keys.length] ?? ''
    if (last === '') break
  }
  const own = Object.getOwnPropertyDescriptor(parent, key ?? last) ?? {
    enumerable: true,
    configurable: true,
    writable: true,
  }
  if (value === undefined) delete parent[key ?? last]
  else Object.defineProperty(parent, key ?? last, { ...own, value: structuredClone(value) })
}
