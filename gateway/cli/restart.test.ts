import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { countersign } from './program.test-support.ts'

test('with a faulty configuration, nothing is restarted, and the fault is the reason given', async (t) => {
  const dir = temporaryDirectory(t)
  const config = join(dir, 'gateway.json')
  writeFileSync(config, '{"routes":[{"path":"/*","auth":["none"]}],"port":-1,"adminPort":-1}')
  const { status, stderr } = await countersign(['restart', '--config', config])
  const lines = stderr.trimEnd().split('\n')
  assert.deepEqual([status, lines.length], [1, 2], stderr)
  assert.ok(lines[0]?.startsWith(`not restarted: ${config}: $.`), stderr)
  assert.ok(lines[1]?.startsWith(`${config}: $.`), stderr)
})

test('secrets need not be readable where GATEWAY_DATA_DIR says which gateway is meant', async (t) => {
  const dir = temporaryDirectory(t)
  const env = { ...process.env, GATEWAY_DATA_DIR: dir, GATEWAY_ADMIN_TOKEN_FILE: join(dir, 'missing') }
  const { status, stderr } = await countersign(['restart'], env)
  assert.equal(status, 1)
  assert.match(stderr, /^not restarted: no gateway /, stderr)
})
