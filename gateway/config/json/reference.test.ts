import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { referenceText } from './reference.ts'

const written = readFileSync(new URL('../../../docs/reference/keys.md', import.meta.url), 'utf8')

test('docs/reference/keys.md is what the schemas say', () => {
  assert.ok(written === referenceText(), 'a schema was changed: npm run schemas')
})

test('docs/reference/keys.md explains every key of every object', () => {
  for (const heading of ['`routes[]`', '`timeouts`', '`issuers[]`', '`limits[]`', '`clients[].mtls`']) {
    assert.ok(written.includes(`### ${heading}\n`), heading)
  }
  const keys = written.split('\n').filter((line) => line.startsWith('- '))
  assert.ok(keys.length > 200)
  for (const key of keys) assert.match(key, /^- `\S+` \(\S.*\): \S/, key)
})

test('docs/reference/keys.md has no example of a number, a boolean, a file, an object that it explains, or a key whose choices or default it lists', () => {
  assert.doesNotMatch(
    written,
    /^- `(?:logLevel|adminHost|maxTunnels|via|maskKeyFile|addresses)` .* Example: /m,
  )
  assert.match(written, /^- `jwksUri` .* Example: /m)
  assert.match(written, /^- `machine` \(object\): .* Example: `\{/m)
})
