import assert from 'node:assert/strict'
import { test } from 'node:test'
import { childPath, parentPath, pathOfPointer } from './json-path.ts'

test('a plain key is written after a dot, an index and any other key between brackets', () => {
  assert.equal(childPath('$', 'limits'), '$.limits')
  assert.equal(childPath('$.limits', 2), '$.limits[2]')
  assert.equal(childPath('$', '$schema'), '$.$schema')
  assert.equal(childPath('$', 'two words'), '$["two words"]')
})

test('the parent of a path is the path without its last step, and the root has none', () => {
  assert.equal(parentPath('$.limits[2].window'), '$.limits[2]')
  assert.equal(parentPath('$.limits[2]'), '$.limits')
  assert.equal(parentPath('$["a b"]'), '$')
  assert.equal(parentPath('$'), undefined)
})

test('a JSON pointer with escapes becomes the same path that a walk over the text gives', () => {
  assert.equal(pathOfPointer(''), '$')
  assert.equal(pathOfPointer('/limits/2/window'), '$.limits[2].window')
  assert.equal(pathOfPointer('/a~1b~0c'), '$["a/b~c"]')
})
