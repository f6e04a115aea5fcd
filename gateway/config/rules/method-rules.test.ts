import assert from 'node:assert/strict'
import { test } from 'node:test'
import { methodFault, methodSet, methodsMeet } from './method-rules.ts'

test('methods that HTTP knows are good, but for CONNECT and TRACE', () => {
  for (const method of ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS', 'PROPFIND', 'LABEL']) {
    assert.equal(methodFault(method), undefined)
  }
  assert.match(methodFault('CONNECT') ?? '', /refuses it always/)
  assert.match(methodFault('TRACE') ?? '', /refuses it always/)
})

test('a method in small letters, misspelt or unknown is a fault that names the one that was meant', () => {
  assert.match(methodFault('get') ?? '', /in capitals, but is "get"; did you mean "GET"\?/)
  assert.match(methodFault('DELTE') ?? '', /did you mean "DELETE"\?/)
  assert.match(methodFault('FROBNICATE') ?? '', /but is "FROBNICATE"$/)
  assert.match(methodFault('*') ?? '', /but is "\*"$/)
})

test('GET brings HEAD with it, and HEAD alone does not bring GET', () => {
  assert.deepEqual(methodSet(['GET', 'POST']), new Set(['GET', 'HEAD', 'POST']))
  assert.deepEqual(methodSet(['HEAD']), new Set(['HEAD']))
  assert.equal(methodSet(undefined), undefined)
})

test('two sets of methods meet if they share a method, and a missing set meets every set', () => {
  assert.equal(methodsMeet(methodSet(['GET']), methodSet(['HEAD'])), true)
  assert.equal(methodsMeet(methodSet(['GET']), methodSet(['POST'])), false)
  assert.equal(methodsMeet(undefined, methodSet(['POST'])), true)
  assert.equal(methodsMeet(methodSet(['POST']), undefined), true)
})
