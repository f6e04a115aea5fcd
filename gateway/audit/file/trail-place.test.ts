import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { openTrail } from '../open-trail.ts'
import { temporaryDirectory } from '../trail.test-support.ts'
import { judgePlace } from './trail-place.ts'

const NOTHING = { fault: undefined, warnings: [] }
/** A user id that nobody has, on most machines. */
const OTHER = 12_345
const ROOT_ALONE = {
  skip: process.geteuid?.() !== 0 && 'NOT TESTED: only root can give files away',
}

test('a place that the gateway owns, or that is not there yet, is good', (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  assert.deepEqual(judgePlace(file), NOTHING)
  writeFileSync(file, '', { mode: 0o600 })
  assert.deepEqual(judgePlace(file), NOTHING)
  assert.deepEqual(judgePlace(join(file, '..', 'none', 'audit.ndjson')), NOTHING)
})

test("a place that root owns is good, as in a container with a volume of root's", ROOT_ALONE, (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  writeFileSync(file, '', { mode: 0o600 })
  assert.deepEqual(judgePlace(file, OTHER), NOTHING)
})

test('a link in the place of the file is named, with where it leads', (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  const real = join(directory, 'elsewhere.ndjson')
  writeFileSync(real, '', { mode: 0o600 })
  symlinkSync(real, file)
  const { fault, warnings } = judgePlace(file)
  assert.deepEqual([fault, warnings.length], [undefined, 1])
  assert.match(warnings[0] ?? '', /audit\.ndjson is a link, .*: name \S+elsewhere\.ndjson itself$/)
})

test('a file, a directory or a log that others may write is named, also where a link leads to it', (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  const log = join(directory, 'audit-log')
  const far = join(directory, 'far')
  for (const path of [log, far]) mkdirSync(path, { mode: 0o700 })
  writeFileSync(file, '', { mode: 0o600 })
  for (const path of [file, directory, log]) {
    // A volume of Kubernetes with `fsGroup` is like the first.
    for (const [mode, who] of [
      [0o2770, 'the group \\d+'],
      [0o707, 'everybody'],
    ] as const) {
      chmodSync(path, mode)
      const { fault, warnings } = judgePlace(file)
      assert.deepEqual([fault, warnings.length], [undefined, 1])
      assert.equal(judgePlace(relative('.', file)).warnings.length, 1, 'one place has two names')
      assert.match(
        warnings[0] ?? '',
        new RegExp(`^${path} may be written by ${who}, so that .*: chmod go-w$`),
      )
    }
    chmodSync(path, 0o700)
  }
  chmodSync(far, 0o770)
  writeFileSync(join(far, 'a'), '', { mode: 0o600 })
  symlinkSync(join(far, 'a'), join(directory, 'linked.ndjson'))
  assert.match(
    judgePlace(join(directory, 'linked.ndjson')).warnings[1] ?? '',
    /far may be written by the group/,
  )
})

test('a place that others own is refused at the start, with who and what to do', ROOT_ALONE, (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  writeFileSync(file, '', { mode: 0o600 })
  const log = join(directory, 'audit-log')
  mkdirSync(log, { mode: 0o700 })
  for (const path of [file, directory, log]) {
    chownSync(path, OTHER, OTHER)
    assert.equal(judgePlace(file, OTHER).fault, undefined)
    const refused = new RegExp(
      `${path} belongs to the user 12345, who can change it at any time: chown it to 0, the user of this process, or run the gateway as 12345`,
    )
    assert.match(judgePlace(file).fault ?? '', refused)
    assert.throws(() => openTrail({ file, onFault: assert.fail, onRecord: () => {} }), refused)
    chownSync(path, 0, 0)
  }
})

test(
  'a link to a file that is still to be made is judged by where it leads, also at the first start',
  ROOT_ALONE,
  (t) => {
    const directory = temporaryDirectory(t)
    const far = join(directory, 'far')
    mkdirSync(far, { mode: 0o700 })
    chownSync(far, OTHER, OTHER)
    const file = join(directory, 'audit.ndjson')
    symlinkSync('far/a', join(directory, 'b'))
    symlinkSync('b', file)
    assert.match(judgePlace(file).fault ?? '', new RegExp(`^${far} belongs to the user ${OTHER}`))
    assert.throws(() => openTrail({ file, onFault: assert.fail, onRecord: () => {} }), /belongs to the user/)
    rmdirSync(far)
    assert.equal(judgePlace(file).fault, undefined)
  },
)
