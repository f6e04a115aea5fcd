import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { introspectionRequest } from './introspection-request.ts'

test('an introspection request is given up when the client secret is not read in time', async (t) => {
  const directory = temporaryDirectory(t)
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
