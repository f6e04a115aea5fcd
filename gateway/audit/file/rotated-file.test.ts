import assert from 'node:assert/strict'
import { renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../trail.test-support.ts'
import { candidatesIn, rotatedFile } from './rotated-file.ts'

test('the previous file is found when others have renamed it since the directory was listed', (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  const [first, second] = [`${file}.1`, `${file}.2`]
  writeFileSync(first, '{"type":"AUDIT_START"}\n')
  const inode = statSync(first, { bigint: true }).ino.toString()
  const candidates = candidatesIn(directory)
  assert.equal(rotatedFile(file, inode, new Set(), candidates), first)
  renameSync(first, second)
  assert.equal(rotatedFile(file, inode, new Set(), candidates), second)
  writeFileSync(first, '{"type":"AUDIT_START"}\n')
  assert.equal(rotatedFile(file, inode, new Set(), candidates), second)
})

test('a file with a lock beside it is found by its inode, but not guessed by its name', (t) => {
  const directory = temporaryDirectory(t)
  const older = join(directory, 'audit-2')
  for (const path of [older, `${older}.lock`]) writeFileSync(path, '{"type":"AUDIT_START"}\n')
  const inode = statSync(older, { bigint: true }).ino.toString()
  const candidates = candidatesIn(directory)
  assert.equal(rotatedFile(join(directory, 'audit'), inode, new Set(), candidates), older)
  assert.equal(rotatedFile(join(directory, 'audit'), undefined, new Set(), candidates), undefined)
})
