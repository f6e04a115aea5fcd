import assert from 'node:assert/strict'
import fs, { mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { it } from 'node:test'
import { syncDirectoryOf } from './append-file.ts'
import { temporaryDirectory } from './temporary-directory.test-support.ts'

it('for a link, the directory of the file itself is synced', (t) => {
  const root = temporaryDirectory(t)
  const [links, files] = [join(root, 'links'), join(root, 'files')]
  for (const directory of [links, files]) mkdirSync(directory)
  const [link, file] = [join(links, 'audit.ndjson'), join(files, 'audit.ndjson')]
  writeFileSync(file, '')
  symlinkSync(file, link)
  const synced: number[] = []
  const { fsyncSync } = fs
  Object.assign(fs, { fsyncSync: (fd: number) => synced.push(fs.fstatSync(fd).ino) })
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(fs, { fsyncSync })
    syncBuiltinESMExports()
  })
  syncDirectoryOf(link)
  rmSync(file)
  syncDirectoryOf(file)
  assert.deepEqual(synced, [statSync(files).ino, statSync(files).ino])
})
