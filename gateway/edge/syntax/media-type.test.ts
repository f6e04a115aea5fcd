import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bareMediaType, mediaParametersOf } from './media-type.ts'

test('a media type and its parameters are read without regard to case, quotes and space', () => {
  for (const text of ['Application/JSON;v=1;X=";y"', 'application/json ; x=";Y" ;; V="1" ; ']) {
    assert.equal(bareMediaType(text), 'application/json')
    assert.deepEqual(Object.fromEntries(mediaParametersOf(text) ?? []), { v: '1', x: ';y' })
  }
  assert.equal(mediaParametersOf('text/plain')?.size, 0)
})

test('parameters that services may read in two ways are not read', () => {
  for (const text of ['v=1;v=2', 'v=1;V=1', 'v="1', 'v="\\1"', 'v=1 2', 'v', 'v =1', 'v="1"2', '=1'])
    assert.equal(mediaParametersOf(`a/b;${text}`), undefined, text)
})
