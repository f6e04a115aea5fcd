import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { CLIENTS_FILE } from '../keys/clients-keys.ts'
import { GATEWAY_FILE } from '../keys/gateway-keys.ts'
import { file, integer, port } from '../keys/key-types.ts'
import { LIMITS_FILE } from '../keys/limits-keys.ts'
import { schemaText } from './schema-text.ts'

for (const [name, declared] of Object.entries({
  gateway: GATEWAY_FILE,
  limits: LIMITS_FILE,
  clients: CLIENTS_FILE,
})) {
  test(`config/schemas/${name}.schema.json is what the declarations say`, () => {
    const written = readFileSync(
      new URL(`../../../config/schemas/${name}.schema.json`, import.meta.url),
      'utf8',
    )
    assert.ok(written === schemaText(declared), 'a declaration was changed: npm run schemas')
  })
}

test('a declaration becomes a key of the schema, with its variable, default and need of a restart', () => {
  const declared = file('some', 'Some file.', {
    port: port('Of the listener.', { env: 'GATEWAY_SOME_PORT', restart: true, default: 80 }),
    least: integer('At least.', { range: [1], required: true, examples: [5] }),
  })
  const { required, properties } = JSON.parse(schemaText(declared))
  assert.deepEqual(required, ['least'])
  assert.deepEqual(properties.port, {
    description: 'Of the listener. An edit is in force after a restart. Environment: GATEWAY_SOME_PORT.',
    environment: 'GATEWAY_SOME_PORT',
    restart: true,
    type: 'integer',
    minimum: 0,
    maximum: 65_535,
    default: 80,
    examples: [80],
  })
  assert.deepEqual(properties.least, { description: 'At least.', type: 'integer', minimum: 1, examples: [5] })
})
