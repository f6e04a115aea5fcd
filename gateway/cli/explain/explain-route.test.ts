import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { PROGRAM } from '../program.test-support.ts'

test('what a row changes of a request, and which methods it is for, is told as the gateway does it', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'explain-route-'))
  t.after(() => rmSync(dir, { recursive: true }))
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
  const explain = (path: string, method = 'GET') =>
    spawnSync(process.execPath, [PROGRAM, 'explain', 'route', method, path, '--config', file], {
      encoding: 'utf8',
    }).stdout
  const told = explain('/users/42')
  for (const line of [
    'masked    id, in the audit trail, the log and the console',
    'path      /internal/42',
    'Host      that of the upstream',
    'lets pass x-auth-token',
    'sets      X-Env: prod',
    'removes   cookie',
  ])
    assert.ok(told.includes(`  ${line}\n`), `${line} in ${told}`)
  assert.match(explain('/other', 'PURGE'), /refused, 501 method_unknown.*\/\*.*: is not for PURGE/s)
  assert.doesNotMatch(explain('/other'), /^ {2}(?:path|Host|sets) /m)
})
