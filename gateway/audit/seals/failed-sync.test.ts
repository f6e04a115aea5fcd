import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync, renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sealedDisk } from '../sealed-disk.test-support.ts'
import { temporaryDirectory } from '../trail.test-support.ts'

test('what a failed fdatasync may have dropped is on the disk before a checkpoint covers it', async (t) => {
  const { start, seals, sizeAfterCut, fail } = sealedDisk(t)
  const { write, seal } = start()
  await write('a', 'b')
  await seal()
  await write('c', 'd')
  fail(true)
  await assert.rejects(seal(), /EIO/)
  await write('e')
  await seal()
  assert.deepEqual([seals, await sizeAfterCut()], [[2, 5], 5])
})

test('a failed fdatasync is repaired where nothing was sealed before, and where more than one fails', async (t) => {
  const { start, seals, sizeAfterCut, fail } = sealedDisk(t)
  const { write, seal } = start()
  await write('a', 'b')
  // Before the file, the directory is synced each time.
  fail(false, true)
  await assert.rejects(seal(), /EIO/)
  await write('c')
  fail(false, true)
  await assert.rejects(seal(), /EIO/)
  await seal()
  assert.deepEqual([seals, await sizeAfterCut()], [[3], 3])
})

test('a failed fdatasync is repaired where the file was closed meanwhile', async (t) => {
  const { start, seals, sizeAfterCut, fail } = sealedDisk(t)
  const { file, trail, write, seal } = start()
  await write('a')
  await seal()
  await write('b')
  fail(true)
  await assert.rejects(seal(), /EIO/)
  renameSync(file, `${file}.20260102T000000001Z`)
  trail.reopen()
  await write('c')
  await seal()
  // These count an AUDIT_STOP and an AUDIT_START.
  assert.deepEqual([seals.at(-1), await sizeAfterCut()], [5, 5])
})

test('a failed fdatasync is repaired where the process ends after it, and another process goes on', async (t) => {
  const { start, seals, sizeAfterCut, fail } = sealedDisk(t)
  const before = start()
  await before.write('a')
  await before.seal()
  await before.write('b', 'c')
  fail(true)
  await assert.rejects(before.seal(), /EIO/)
  const { write, seal } = start()
  await write('d')
  await seal()
  assert.deepEqual([seals, await sizeAfterCut()], [[1, 3, 4], 4])
})

test('where the audit file is a link, closed files too are on the disk before a checkpoint covers them', async (t) => {
  const { disk, start, startIn, fail } = sealedDisk(t)
  const before = start()
  await before.write('a')
  await before.seal()
  await before.write('b')
  fail(false, true)
  await assert.rejects(before.seal(), /EIO/)
  const closed = `${before.file}.20260102T000000001Z`
  renameSync(before.file, closed)
  before.trail.reopen()
  const elsewhere = temporaryDirectory(t)
  symlinkSync(before.file, join(elsewhere, 'audit.ndjson'))
  cpSync(before.log, join(elsewhere, 'audit-log'), { recursive: true })
  const { write, seal } = startIn(elsewhere)
  await write('c')
  await seal()
  const durable = disk.moments.at(-1)?.files.get(statSync(closed).ino)?.durable
  assert.equal(durable?.toString(), readFileSync(closed, 'utf8'))
})

test('an AUDIT_STOP that the disk may have dropped is cut off again, before anybody reads it', async (t) => {
  const { start, seals, sizeAfterCut, fail } = sealedDisk(t)
  const { file, trail, write, seal } = start('synced')
  await write('a')
  renameSync(file, `${file}.20260102T000000001Z`)
  // The name of the new file is synced, and then the old file.
  fail(false, true)
  trail.reopen()
  await write('b')
  await seal()
  // These count both files, with an AUDIT_STOP and an AUDIT_START in the second.
  assert.deepEqual([seals.at(-1), await sizeAfterCut()], [4, 4])
})

test('lost bytes that cannot be written again, because the file is append-only, are a fault', async (t) => {
  const faults: string[] = []
  const { start, seals, fail } = sealedDisk(t, (message) => faults.push(message))
  const { file, write, seal } = start()
  const change = (flag: string) => spawnSync('chattr', [flag, file]).status === 0
  await write('a')
  await seal()
  if (!change('+a'))
    return t.skip('NOT TESTED: files cannot be made append-only here, which takes root on Linux')
  try {
    await write('b')
    fail(true)
    await assert.rejects(seal(), /EIO/)
    await seal()
    assert.deepEqual([seals, faults.length], [[1, 2], 1])
    assert.match(
      faults.join(),
      /audit.ndjson is append-only, so the gateway cannot write again what the disk may have lost: /,
    )
    // A start knows of no failure.
    const next = start()
    await next.write('c')
    await next.seal()
    assert.equal(faults.length, 1)
  } finally {
    change('-a')
  }
})
