import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
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

test('a path of which no row has the method still hides less specific rows', () => {
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

test('a less specific row names the row from which the path differs only in a closing slash or letter case', () => {
  const dir = [row('/*'), row('/dir/*')]
  const reasonsFor = (path: string) =>
    whyNot(dir, undefined, { path, method: 'GET', folded: false }).near.map(
      ([{ path: at }, why]) => `${at}: ${why}`,
    )
  for (const path of ['/dir', '/DIR/x'])
    assert.deepEqual(reasonsFor(path), [
      `/*: /dir/* is more specific, and a service may take ${path} for a path of it`,
      '/dir/*: differs in letter case or a closing slash, which routes tell apart',
    ])
})

test('a row that has the method is never said to lack it', () => {
  const paths = fc.constantFrom('/*', '/a', '/a/*', '/A/b', '/a/b/*', '/a/{id}', '/a/{id}/*')
  const methods = fc.option(fc.constantFrom('GET', 'POST'), { nil: undefined })
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.tuple(paths, methods), { selector: ([path]) => path, minLength: 1 }),
      fc.constantFrom('/', '/a', '/A', '/a/', '/a/b', '/A/b', '/a/b/', '/a/x/y'),
      fc.boolean(),
      (pairs, path, folded) => {
        const all = pairs.map(([at, method]) => row(at, ...(method === undefined ? [] : [method])))
        const { near, others } = whyNot(all, undefined, { path, method: 'GET', folded })
        assert.equal(near.length + others, all.length)
        for (const [{ methods }, why] of near)
          if (why === 'is not for GET') assert.equal(methods?.has('GET'), false)
      },
    ),
  )
})
