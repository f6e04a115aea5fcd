import assert from 'node:assert/strict'
import fs, { readdirSync, readFileSync, statSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { it } from 'node:test'
import { existingOrNew } from './secret-file.ts'
import { temporaryDirectory } from './temporary-directory.test-support.ts'

it('a new secret and the directories made for it have their names synced, once', (t) => {
  const root = temporaryDirectory(t)
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

it('a secret is made once on a disk without hard links, too', (t) => {
  const root = temporaryDirectory(t)
  const { linkSync } = fs
  Object.assign(fs, {
    linkSync: () => {
      throw Object.assign(new Error('EPERM: operation not permitted, link'), { code: 'EPERM' })
    },
  })
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(fs, { linkSync })
    syncBuiltinESMExports()
  })
  const file = join(root, 'audit-session-key')
  const text = readFileSync(existingOrNew(file), 'utf8')
  assert.match(text, /^[\w-]{43}\n$/)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(root), ['audit-session-key'])
  assert.equal(readFileSync(existingOrNew(file), 'utf8'), text)
})
