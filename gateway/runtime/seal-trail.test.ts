import assert from 'node:assert/strict'
import { chownSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { EMPTY_ROOT } from '../audit/seals/hashes.ts'
import { makeMlDsaKey, makeSealKey, mlDsaKeyFile, readSealKey } from '../audit/seals/seal-key.ts'
import { checkpointFile, logDirectory } from '../audit/seals/tiles.ts'
import type { AuditSettings } from '../config/settings.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { prepareSeals, sealKeyFaults } from './seal-trail.ts'
import type { StartupConfiguration } from './startup/read-configuration.ts'

const WITH_SECOND = { secondSealKey: 'ml-dsa-44' } as const

/** A data directory whose log has a checkpoint of an Ed25519 key alone. */
function sealedDirectory(t: TestContext) {
  const dataDir = temporaryDirectory(t)
  const auditFile = join(dataDir, 'audit.ndjson')
  const key = join(dataDir, 'audit-seal-key.pem')
  makeSealKey(key)
  const directory = logDirectory(auditFile)
  mkdirSync(directory)
  writeFileSync(checkpointFile(directory), readSealKey(key).seal({ size: 0, root: EMPTY_ROOT }))
  const logged: string[] = []
  const tell = (_: object, message: string) => logged.push(message)
  const log = { info: tell, warn: tell }
  const audit = { file: auditFile, seals: 'on' }
  const prepare = (changed: Partial<AuditSettings> = {}) => {
    const settings = { audit: { ...audit, ...changed }, dataDir }
    return prepareSeals({ settings, log } as unknown as StartupConfiguration)
  }
  return { key, second: mlDsaKeyFile(key), directory, logged, prepare }
}

test('a missing key that has sealed the log is not replaced', (t) => {
  const { key, second, directory, logged, prepare } = sealedDirectory(t)
  renameSync(key, `${key}.away`)
  for (let start = 0; start < 2; start++) {
    assert.throws(
      () => prepare(WITH_SECOND),
      (error: Error) => {
        assert.ok(error.message.includes(`${key} is missing: put the key back, or move the directory away`))
        return true
      },
    )
    assert.deepEqual([existsSync(key), existsSync(second), logged], [false, false, []])
  }
  renameSync(directory, `${directory}.away`)
  assert.ok(prepare(WITH_SECOND)?.keys.mlDsa44)
  assert.deepEqual(
    logged.map((message) => message.split(':')[0]),
    ['a new key signs the seals', 'a new ML-DSA-44 key signs the seals too'],
  )
})

test('a file in the place of the log keeps the gateway from starting, and no key is made', (t) => {
  const { key, directory, prepare } = sealedDirectory(t)
  renameSync(directory, `${directory}.away`)
  writeFileSync(directory, '')
  assert.throws(() => prepare(), /ENOTDIR/)
  rmSync(key)
  assert.throws(() => prepare(), /ENOTDIR/)
  assert.equal(existsSync(key), false)
})

test('no ML-DSA key is made beside a key that has not sealed the log', (t) => {
  const { key, second, logged, prepare } = sealedDirectory(t)
  rmSync(key)
  makeSealKey(key)
  assert.throws(() => prepare(WITH_SECOND), /checkpoint is of the log .*: put the key back, or move/)
  assert.deepEqual([existsSync(second), logged], [false, []])
})

test('a log that an Ed25519 key alone has sealed goes on with an ML-DSA key too, where one is asked for', (t) => {
  const { second, logged, prepare } = sealedDirectory(t)
  assert.equal(prepare()?.keys.mlDsa44, undefined)
  assert.deepEqual([existsSync(second), logged], [false, []])
  assert.ok(prepare(WITH_SECOND)?.keys.mlDsa44)
  assert.ok(existsSync(second))
  assert.deepEqual(logged, ['a new ML-DSA-44 key signs the seals too'])
})

test('a second key that is no longer asked for stays where it is, signs nothing, and the log says so', (t) => {
  const { second, logged, prepare } = sealedDirectory(t)
  prepare(WITH_SECOND)
  logged.length = 0
  writeFileSync(second, 'of no key: nobody reads it')
  assert.equal(prepare()?.keys.mlDsa44, undefined)
  assert.ok(existsSync(second))
  assert.equal(logged.length, 1)
  assert.match(logged[0] ?? '', /not used: .*audit\.secondSealKey/)
})

test('no second key is made beside a key that sealKeyFile names; the fault has the command that makes it', (t) => {
  const { key, second, logged, prepare } = sealedDirectory(t)
  const named = { ...WITH_SECOND, sealKeyFile: key }
  const told = new RegExp(`${second} .*countersign audit key --second ${key}`)
  assert.throws(() => prepare(named), told)
  const [fault] = sealKeyFaults({ file: 'a.ndjson', seals: 'on', ...named })
  assert.match(fault?.reason ?? '', told)
  assert.deepEqual([existsSync(second), logged], [false, []])
  makeMlDsaKey(key)
  assert.ok(prepare(named)?.keys.mlDsa44)
})

test('a key that another user owns seals nothing', {
  skip: process.geteuid?.() !== 0 && 'NOT TESTED: only root can give files away',
}, (t) => {
  const { key, second, prepare } = sealedDirectory(t)
  prepare(WITH_SECOND)
  for (const path of [key, second]) {
    chownSync(path, 12_345, 0)
    assert.throws(
      () => prepare(WITH_SECOND),
      new RegExp(`${path} belongs to the user 12345, .*: chown it to 0`),
    )
    chownSync(path, 0, 0)
  }
  assert.ok(prepare(WITH_SECOND))
})
