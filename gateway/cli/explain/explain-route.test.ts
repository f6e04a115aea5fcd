import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { countersign } from '../program.test-support.ts'

test('what a row changes of a request, and which methods it is for, is told as the gateway does it', async (t) => {
  const dir = temporaryDirectory(t)
  const file = join(dir, 'gateway.json')
  const sending = {
    rewrite: { path: '/internal/{id}' },
    upstreamHost: 'target',
    requestHeaders: { allow: ['X-Auth-Token'], set: { 'X-Env': 'prod' }, remove: ['Cookie'] },
  }
  const routes = [
    { path: '/users/{id}', auth: ['none'], mask: ['id'], ...sending },
    { path: '/*', auth: ['none'] },
  ]
  writeFileSync(file, JSON.stringify({ routes }))
  const explain = async (path: string, method = 'GET') =>
    (await countersign(['explain', 'route', method, path, '--config', file])).stdout
  const told = await explain('/users/42')
  for (const line of [
    'masked    id, in the audit trail, the log and the console',
    'path      /internal/42',
    'Host      that of the upstream',
    'lets pass x-auth-token',
    'sets      X-Env: prod',
    'removes   cookie',
  ])
    assert.ok(told.includes(`  ${line}\n`), `${line} in ${told}`)
  assert.match(await explain('/other', 'PURGE'), /refused, 501 method_unknown.*\/\*.*: is not for PURGE/s)
  assert.doesNotMatch(await explain('/other'), /^ {2}(?:path|Host|sets) /m)
})
