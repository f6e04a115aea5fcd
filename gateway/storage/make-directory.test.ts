import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs, { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { it } from 'node:test'
import { makeDirectory } from './line-file.ts'
import { temporaryDirectory } from './temporary-directory.test-support.ts'

it('a directory is made with its parents, for their owner alone, and may be there already', (t) => {
  const root = temporaryDirectory(t)
  makeDirectory(join(root, 'a', 'b'))
  makeDirectory(join(root, 'a', 'b'))
  assert.equal(statSync(join(root, 'a')).mode & 0o777, 0o700)
  writeFileSync(join(root, 'file'), '')
  assert.throws(() => makeDirectory(join(root, 'file', 'a')), /ENOTDIR: not a directory/)
})

it('a read-only disk is said to be read-only, however deep the directory', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'make-directory-'))
  t.after(() => {
    spawnSync('umount', [root])
    rmSync(root, { recursive: true })
  })
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,ro', 'tmpfs', root]).status !== 0) {
    t.skip('NOT TESTED: a disk cannot be mounted here, which takes root on Linux')
    return
  }
  assert.throws(() => makeDirectory(join(root, 'a', 'b')), /EROFS: read-only file system/)
})

it('the name of each new directory is synced, if its parent may be read', (t) => {
  const root = temporaryDirectory(t)
  const synced: string[] = []
  const { closeSync, fsyncSync, openSync } = fs
  const opened = new Map<number, string>()
  let closed = ''
  Object.assign(fs, {
    openSync: (path: string, flags: string) => {
      if (path === closed) throw Object.assign(new Error('EACCES: permission denied'), { code: 'EACCES' })
      const fd = openSync(path, flags)
      opened.set(fd, path)
      return fd
    },
    closeSync: (fd: number) => {
      opened.delete(fd)
      closeSync(fd)
    },
    fsyncSync: (fd: number) => {
      fsyncSync(fd)
      synced.push(relative(root, opened.get(fd) ?? '?'))
    },
  })
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(fs, { closeSync, fsyncSync, openSync })
    syncBuiltinESMExports()
  })
  makeDirectory(join(root, 'a', 'b'))
  makeDirectory(join(root, 'a', 'b'))
  assert.deepEqual(synced, ['', 'a'])
  closed = join(root, 'a')
  makeDirectory(join(root, 'a', 'c', 'd'))
  assert.deepEqual(synced, ['', 'a', join('a', 'c')])
})
