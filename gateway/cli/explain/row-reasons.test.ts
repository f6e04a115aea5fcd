import assert from 'node:assert/strict'
import { test } from 'node:test'
import { whyNot } from './row-reasons.ts'

const row = (path: string, ...methods: string[]) => ({
  path,
  methods: methods.length === 0 ? undefined : new Set(methods),
})
const rows = [row('/*'), row('/a/*', 'GET'), row('/a/b', 'POST'), row('/a/b', 'GET'), row('/A/b/'), row('/c')]

test('a row near the path says why it does not apply, all others are counted', () => {
  const { near, others } = whyNot(rows, rows[3], { path: '/a/b', method: 'GET', folded: false })
  assert.deepEqual(
    near.map(([{ path }, why]) => `${path}: ${why}`),
    [
      '/*: /a/b is more specific',
      '/a/*: /a/b is more specific',
      '/a/b: is not for GET',
      '/A/b/: differs in letter case or a closing slash, which routes tell apart',
    ],
  )
  assert.equal(others, 1)
})

test('a path without a row for the method hides the less specific ones', () => {
  const { near } = whyNot(rows.slice(0, 3), undefined, { path: '/a/b', method: 'GET', folded: true })
  assert.deepEqual(
    near.map(([{ path }, why]) => `${path}: ${why}`),
    ['/*: /a/b is more specific', '/a/*: /a/b is more specific', '/a/b: is not for GET'],
  )
})

test('templates and prefixes are weighed as the gateway weighs them', () => {
  const users = [row('/users/{id}'), row('/users/me', 'GET'), row('/users/me', 'POST'), row('/*')]
  const { near } = whyNot(users, users[1], { path: '/users/me', method: 'GET', folded: false })
  assert.deepEqual(
    near.map(([{ path }, why]) => `${path}: ${why}`),
    [
      '/users/{id}: /users/me is more specific',
      '/users/me: is not for GET',
      '/*: /users/me is more specific',
    ],
  )
  const below = [row('/a/{id}/c'), row('/a/b/*'), row('/a/*')]
  const longer = whyNot(below, below[1], { path: '/a/b/c', method: 'GET', folded: true })
  assert.deepEqual(
    longer.near.map(([{ path }, why]) => `${path}: ${why}`),
    ['/a/{id}/c: /a/b/* is more specific', '/a/*: /a/b/* is more specific'],
  )
})
