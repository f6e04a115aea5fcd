import assert from 'node:assert/strict'
import fs, { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { existingOrNew } from './secret-file.ts'

it('a new secret and the directories made for it have their names synced, once', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'secret-file-'))
  const synced: number[] = []
  const { fsyncSync } = fs
  Object.assign(fs, {
    fsyncSync: (fd: number) => {
      if (fs.fstatSync(fd).isDirectory()) synced.push(fs.fstatSync(fd).ino)
    },
  })
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(fs, { fsyncSync })
    syncBuiltinESMExports()
    rmSync(root, { recursive: true })
  })
  const directory = join(root, 'data')
  const file = existingOrNew(join(directory, 'audit-session-key'))
  assert.deepEqual(synced, [statSync(root).ino, statSync(directory).ino])
  assert.deepEqual([statSync(directory).mode & 0o777, statSync(file).mode & 0o777], [0o700, 0o600])
  const text = readFileSync(file, 'utf8')
  assert.match(text, /^[\w-]{43}\n$/)
  assert.equal(readFileSync(existingOrNew(file), 'utf8'), text)
  assert.equal(synced.length, 2)
})
