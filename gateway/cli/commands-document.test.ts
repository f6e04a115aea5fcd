import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { commandsDocument } from './commands-document.ts'

test('docs/reference/commands.md is what --help says now', async () => {
  const written = readFileSync(new URL('../../docs/reference/commands.md', import.meta.url), 'utf8')
  assert.equal(written, await commandsDocument(), 'run "npm run schemas"')
})
