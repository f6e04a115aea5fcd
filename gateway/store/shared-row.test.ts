import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeRow } from '../limits/table/limit-row.test-support.ts'
import { sharedRowOf } from './shared-row.ts'

const ROW = makeRow({
  name: 'login',
  path: '/api/login',
  limit: 5,
  purpose: 'p',
})

test('a row keeps its place in the store when its name, limit or window is edited', () => {
  const edited = sharedRowOf({ ...ROW, name: 'sign-in', limit: 2000, windowMs: 1000 })
  assert.deepEqual(edited, { identity: sharedRowOf(ROW).identity, limit: 2000, windowMs: 1000 })
})

test('the order of methods makes no difference, and other paths and methods are other places', () => {
  const identities = [
    sharedRowOf(ROW),
    sharedRowOf({ ...ROW, path: '/api/login/*' }),
    sharedRowOf({ ...ROW, methods: new Set(['GET']) }),
    sharedRowOf({ ...ROW, methods: new Set(['GET', 'POST']) }),
  ].map(({ identity }) => identity)
  assert.equal(new Set(identities).size, 4)
  assert.equal(sharedRowOf({ ...ROW, methods: new Set(['POST', 'GET']) }).identity, identities[3])
})
