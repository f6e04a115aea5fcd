import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readRegularFile } from './regular-file.ts'
import { temporaryDirectory } from './temporary-directory.test-support.ts'

test('a file is read whole; what would block its reader, or has no end, is named', (t) => {
  const dir = temporaryDirectory(t)
  const file = join(dir, 'file')
  writeFileSync(file, '')
  assert.equal(readRegularFile(file).length, 0)
  writeFileSync(file, 'text')
  assert.equal(readRegularFile(file).toString(), 'text')
  assert.equal(readRegularFile(file, 4).toString(), 'text')
  assert.throws(() => readRegularFile(file, 3), /file has more than 3 bytes/)
  truncateSync(file, 2 ** 40)
  assert.throws(() => readRegularFile(file), /file has more than 1048576 bytes/)
  execFileSync('mkfifo', [join(dir, 'pipe')])
  assert.throws(() => readRegularFile(join(dir, 'pipe')), /pipe is no regular file/)
  symlinkSync('/dev/zero', join(dir, 'zero'))
  assert.throws(() => readRegularFile(join(dir, 'zero')), /zero is no regular file/)
  assert.throws(() => readRegularFile(dir), /is no regular file/)
  assert.throws(() => readRegularFile(join(dir, 'none')), { code: 'ENOENT' })
})
