import assert from 'node:assert/strict'
import { it } from 'node:test'
import { GroupPermits } from './group-permits.ts'

const caller = () => ({ isProxy: false })

it('one caller leaves a quarter of a group to others, a proxy does not, and what is given back is free', () => {
  const permits = new GroupPermits<{ isProxy: boolean }>(8)
  const [one, other, proxy] = [caller(), caller(), { isProxy: true }]
  const taken = Array.from({ length: 8 }, () => permits.take(one))
  assert.deepEqual(taken.filter(Boolean).length, 6)
  assert.ok(permits.take(other))
  assert.ok(permits.take(proxy))
  assert.ok(!permits.take(proxy), 'none is left')
  permits.release(one)
  assert.ok(permits.take(proxy))
  permits.bound(4)
  permits.release(proxy)
  assert.ok(!permits.take(caller()), 'more are taken than there may be')
})
