import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { compileSchema, validatorsSource } from './schema-compiler.ts'

test('validators.ts is what the schemas are compiled to', () => {
  const source = readFileSync(new URL('./validators.ts', import.meta.url), 'utf8')
  assert.ok(source === validatorsSource(), 'a schema or ajv was changed: npm run schemas')
})

test('a schema that breaks the rules of its language is not compiled', () => {
  assert.throws(() => compileSchema({ type: 'objekt' }), /schema is invalid/)
  assert.throws(() => compileSchema({ type: 'object', requird: [] }), /unknown keyword: "requird"/)
})
