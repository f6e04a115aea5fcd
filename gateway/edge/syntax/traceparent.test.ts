import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newTraceparent } from './traceparent.ts'

test('every trace has ids of its own, also beyond one buffer of random bytes', () => {
  const traces = new Set<string>()
  const parents = new Set<string>()
  for (let i = 0; i < 2000; i++) {
    const [, trace = '', parent = ''] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-00$/.exec(newTraceparent()) ?? []
    assert.match(trace, /[1-9a-f]/)
    assert.match(parent, /[1-9a-f]/)
    traces.add(trace)
    parents.add(parent)
  }
  assert.equal(traces.size, 2000)
  assert.equal(parents.size, 2000)
})
