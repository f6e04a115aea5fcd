import assert from 'node:assert/strict'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { DirectoryInUseError, lockDirectory } from './pglite.ts'
import { endExposure, isExposed } from './private-directory.ts'

const modeOf = (path: string) => statSync(path).mode & 0o7777

/** Makes a directory as an earlier version left it, whatever the umask is. */
function openDirectory(t: TestContext): string {
  const parent = mkdtempSync(join(tmpdir(), 'private-'))
  t.after(() => rmSync(parent, { recursive: true }))
  const directory = join(parent, 'backend')
  mkdirSync(join(directory, 'cluster', 'base'), { recursive: true })
  for (const name of ['lock', 'cluster/PG_VERSION', 'cluster/base/1']) {
    writeFileSync(join(directory, name), '')
    chmodSync(join(directory, name), 0o644)
  }
  for (const name of ['', 'cluster', 'cluster/base']) chmodSync(join(directory, name), 0o755)
  return directory
}

test("a database that others can read becomes its owner's alone, and its keys are to be replaced", (t) => {
  const directory = openDirectory(t)
  assert.equal(endExposure(directory), false)
  assert.equal(modeOf(join(directory, 'cluster')), 0o700)
  assert.ok(isExposed(directory))
})

test('what is not ours stays as it is: other files, and the directory around them', (t) => {
  const directory = openDirectory(t)
  const foreign = join(directory, 'of-somebody-else')
  writeFileSync(foreign, '')
  chmodSync(foreign, 0o644)
  endExposure(directory)
  assert.equal(modeOf(foreign), 0o644)
  assert.equal(modeOf(directory), 0o755)
})

test('a directory that is missing or empty is left alone', (t) => {
  const parent = mkdtempSync(join(tmpdir(), 'private-'))
  t.after(() => rmSync(parent, { recursive: true }))
  chmodSync(parent, 0o755)
  assert.equal(endExposure(join(parent, 'missing')), false)
  assert.equal(endExposure(parent), false)
  assert.equal(modeOf(parent), 0o755)
  assert.deepEqual(readdirSync(parent), [])
})

test('a lock that cannot be taken says why, and blames another process only when there is one', (t) => {
  const directory = openDirectory(t)
  const unlock = lockDirectory(directory)
  assert.throws(() => lockDirectory(directory), DirectoryInUseError)
  unlock()
  writeFileSync(join(directory, 'lock'), 'no database at all, but a file of somebody else'.repeat(40))
  assert.throws(
    () => lockDirectory(directory),
    (fault: Error) =>
      !(fault instanceof DirectoryInUseError) && /lock: file is not a database/.test(fault.message),
  )
})

test('a cluster behind a link becomes private where it is', (t) => {
  const directory = openDirectory(t)
  const elsewhere = join(directory, '..', 'elsewhere')
  renameSync(join(directory, 'cluster'), elsewhere)
  symlinkSync(elsewhere, join(directory, 'cluster'))
  assert.equal(endExposure(directory), false)
  assert.equal(modeOf(elsewhere), 0o700)
  assert.ok(isExposed(directory))
})
