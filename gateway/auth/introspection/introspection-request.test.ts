import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { introspectionRequest } from './introspection-request.ts'

test('an introspection request is given up when the client secret is not read in time', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'introspection-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const clientSecretFile = join(directory, 'secret')
  execFileSync('mkfifo', [clientSecretFile])
  const ask = introspectionRequest(
    {
      url: 'http://127.0.0.1:9/introspect',
      clientId: 'countersign',
      clientSecretFile,
      for: 'opaque',
      cacheMs: 0,
      negativeCacheMs: 0,
      timeoutMs: 20,
      signed: false,
    },
    'https://login.example',
  )
  await assert.rejects(ask('opaque-1'), /secret was not read in time$/)
  // The read waits for a writer.
  writeFileSync(clientSecretFile, '')
})
