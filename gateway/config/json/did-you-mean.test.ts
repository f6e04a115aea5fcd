import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closestTo } from './did-you-mean.ts'

const KEYS = ['path', 'limit', 'window', 'purpose', 'name']

test('a word with a letter too few, too many, wrong or swapped is taken for the one that was meant', () => {
  assert.equal(closestTo('windw', KEYS), 'window')
  assert.equal(closestTo('windoww', KEYS), 'window')
  assert.equal(closestTo('wandow', KEYS), 'window')
  assert.equal(closestTo('wnidow', KEYS), 'window')
  assert.equal(closestTo('apth', ['pxth', 'path']), 'path')
})

test('letter case makes no difference', () => {
  assert.equal(closestTo('WINDOW', KEYS), 'window')
})

test('of two near words the nearer is meant', () => {
  assert.equal(closestTo('limits', ['limes', 'limit']), 'limit')
})

test('a third of the letters may be wrong and no more, but always one', () => {
  assert.equal(closestTo('abc', ['xbc']), 'xbc')
  assert.equal(closestTo('abc', ['xyc']), undefined)
  assert.equal(closestTo('abcdef', ['xycdef']), 'xycdef')
  assert.equal(closestTo('abcdef', ['xyzdef']), undefined)
  assert.equal(closestTo('ab', ['xb']), 'xb')
})

test('a word that is much longer than any is not compared letter by letter', () => {
  // A million letters compared with six would be six million cells, and a row of a million in memory.
  assert.equal(closestTo('x'.repeat(1_000_000), ['window', 'limits']), undefined)
})

test('a word that is near to none is taken for none', () => {
  assert.equal(closestTo('ttl', KEYS), undefined)
  assert.equal(closestTo('', KEYS), undefined)
  assert.equal(closestTo('anything', []), undefined)
})
