import assert from 'node:assert/strict'
import { statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { labelOf, writerOf } from './reload-reports.ts'

test('a file is named by its last part in metrics, unless another has the same', () => {
  const apart = { configFile: '/a/gateway.json', limitsFile: '/b/limits.json', clientsFile: undefined }
  assert.equal(labelOf('/b/limits.json', apart), 'limits.json')
  const alike = { configFile: '/a/config.json', limitsFile: '/b/config.json', clientsFile: '/b/tls' }
  const labels = [alike.configFile, alike.limitsFile, alike.clientsFile].map((file) => labelOf(file, alike))
  assert.deepEqual(labels, ['/a/config.json', '/b/config.json', '/b/tls'])
})

test('the writer of a file is its owner, by number and name if known, with the time of the last edit', (t) => {
  const directory = temporaryDirectory(t)
  const [file, accounts] = [join(directory, 'limits.json'), join(directory, 'passwd')]
  writeFileSync(file, '[]')
  const { uid } = statSync(file)
  const modified = '2026-01-02T03:04:05.000Z'
  utimesSync(file, new Date(modified), new Date(modified))
  writeFileSync(accounts, `other:x:${uid}1:0::/:/bin/sh\nops:x:${uid}:0:Operations:/home/ops:/bin/sh\n`)
  assert.deepEqual(writerOf(file, accounts), { owner: { uid, name: 'ops' }, modified })
  assert.deepEqual(writerOf(file, `${accounts}-none`), { owner: { uid, name: undefined }, modified })
  assert.equal(writerOf(`${file}-gone`, accounts), undefined)
})
