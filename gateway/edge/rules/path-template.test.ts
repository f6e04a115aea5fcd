import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { PathTable } from './path-table.ts'
import { parametersOf, segmentsOf, textOf, withoutNames } from './path-template.ts'

function row(path: string, ...methods: string[]) {
  return { path, methods: methods.length === 0 ? undefined : new Set(methods) }
}

function finder(...paths: string[]) {
  const table = new PathTable(paths.map((path) => row(path)))
  return {
    found: (path: string) => table.find(path)?.rows[0]?.path,
    /** True when a request is refused because a service may take it for a request of a more specific row. */
    isAlias: (path: string) => (table.findFolded(path)?.weight ?? 0) > (table.find(path)?.weight ?? 0),
  }
}

test('a parameter stands for any one segment, never for none and never for two', () => {
  const { found } = finder('/users/{id}', '/users/{id}/keys/{key}')
  assert.equal(found('/users/5'), '/users/{id}')
  assert.equal(found('/users/a%20b'), '/users/{id}')
  assert.equal(found('/users/5/keys/7'), '/users/{id}/keys/{key}')
  for (const path of [
    '/users',
    '/users/',
    '/users/5/',
    '/users/5/keys',
    '/users/5/keys/',
    '/users//keys/7',
    '/',
  ])
    assert.equal(found(path), undefined, path)
})

test('a path full of braces is read in one pass', () => {
  assert.equal(withoutNames(`/${'{'.repeat(1_000_000)}/{id}`), `/${'{'.repeat(1_000_000)}/{_}`)
})

test('a fixed path comes before a template, and the template with the longer fixed beginning before others', () => {
  const { found } = finder(
    '/users/me',
    '/users/{id}',
    '/{kind}/me',
    '/{kind}/{id}',
    '/users/{id}/a',
    '/users/{x}/{y}',
  )
  assert.equal(found('/users/me'), '/users/me')
  assert.equal(found('/users/5'), '/users/{id}')
  assert.equal(found('/other/me'), '/{kind}/me')
  assert.equal(found('/other/5'), '/{kind}/{id}')
  assert.equal(found('/users/5/a'), '/users/{id}/a')
  assert.equal(found('/users/5/b'), '/users/{x}/{y}')
})

test('a branch that leads nowhere is left again', () => {
  const { found } = finder('/a/b/c', '/a/{x}/d', '/{y}/b/e')
  assert.equal(found('/a/b/d'), '/a/{x}/d')
  assert.equal(found('/a/b/e'), '/{y}/b/e')
  assert.equal(found('/a/b/f'), undefined)
})

test('a template comes before a prefix shorter than its fixed beginning, and after a longer prefix', () => {
  const { found } = finder('/api/*', '/api/users/{id}', '/{tenant}/{thing}', '/*')
  assert.equal(found('/api/users/5'), '/api/users/{id}')
  assert.equal(found('/api/x'), '/api/*')
  assert.equal(found('/t/x'), '/{tenant}/{thing}')
  assert.equal(found('/t/x/y'), '/*')
})

test('a path that differs from a more specific row only by letter case or a closing slash is found to be its alias', () => {
  const { isAlias } = finder('/*', '/users/{id}', '/users/me', '/users/{id}/Keys')
  for (const path of ['/USERS/5', '/users/5/', '/users/Me', '/users/me/', '/users/5/keys']) {
    assert.ok(isAlias(path), path)
  }
  for (const path of ['/users/5', '/users/me', '/users/5/Keys', '/other', '/'])
    assert.ok(!isAlias(path), path)
})

test('templates that differ in nothing but names share their rows', () => {
  const table = new PathTable([row('/users/{id}', 'GET'), row('/users/{name}', 'PUT')])
  assert.equal(table.find('/users/5')?.rows.length, 2)
})

test('a parameter may be a part of a segment, and is one character at least', () => {
  const { found } = finder(
    '/{id}.json',
    '/v1/{name}:close',
    '/v1/{name}',
    '/r/{from}-{to}',
    '/r/{from}-{to}.csv',
    '/p/v{n}',
  )
  assert.equal(found('/a.json'), '/{id}.json')
  assert.equal(found('/v1/a:close'), '/v1/{name}:close')
  assert.equal(found('/v1/a:open'), '/v1/{name}')
  assert.equal(found('/r/a-b'), '/r/{from}-{to}')
  assert.equal(found('/r/a-b.csv'), '/r/{from}-{to}.csv')
  assert.equal(found('/p/v12'), '/p/v{n}')
  for (const path of ['/.json', '/a.jso', '/r/-b', '/r/a-', '/r/ab', '/p/v', '/p/w1', '/r/a-/b'])
    assert.equal(found(path), undefined, path)
  assert.equal(found('/v1/:close'), '/v1/{name}')
})

test('a path is also an alias of a row that is more specific only by a part of a segment', () => {
  const { isAlias } = finder(
    '/v1/{name}',
    '/v1/{name}:close',
    '/v1/{name}:close:now',
    '/r/{a}-{b}',
    '/r/{a}x{b}-{c}',
  )
  for (const path of ['/v1/a:CLOSE', '/v1/a:close/', '/v1/a:close:NOW', '/r/aXb-c'])
    assert.ok(isAlias(path), path)
  for (const path of ['/v1/a:close', '/v1/a', '/r/a-c', '/r/axb-c']) assert.ok(!isAlias(path), path)
})

test('the text of a parameter ends before the first place where the following text fits', () => {
  const texts = (template: string, path: string) =>
    parametersOf(template).map((place) => `${place.name}=${textOf(place, segmentsOf(path))}`)
  assert.deepEqual(texts('/a/{id}', '/a/5'), ['id=5'])
  assert.deepEqual(texts('/{id}.json/{v}:x', '/a.json.json/b:x'), ['id=a.json', 'v=b'])
  assert.deepEqual(texts('/v{a}-{b}.x', '/v1-2-3.x'), ['a=1', 'b=2-3'])
})

test('the table finds what a comparison of all rows segment by segment finds', () => {
  const segment = fc.constantFrom('a', 'ab', '{x}', 'a{x}', '{x}b', '{x}-{x}', '{x}-{x}b')
  const template = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => `/${parts.join('/')}`)
  const path = fc.array(fc.constantFrom('a', 'ab', 'abb', 'a-b', 'c-cb'), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(fc.uniqueArray(template, { maxLength: 12 }), path, (templates, parts) => {
      const matches = templates.filter((one) => {
        const own = one.slice(1).split('/')
        return own.length === parts.length && own.every((part, at) => matcher(part).test(parts[at] ?? ''))
      })
      const [best] = matches.sort((one, other) => (rank(one) < rank(other) ? -1 : 1))
      assert.equal(finder(...templates).found(`/${parts.join('/')}`), best)
    }),
  )
})

function matcher(segment: string): RegExp {
  return new RegExp(`^${segment.replaceAll('{x}', '.+')}$`)
}

/** Sorts the most specific first, by segment: fixed before a parameter, then how much is fixed, then the text. */
function rank(template: string): string {
  const ranks = template
    .slice(1)
    .split('/')
    .map((segment) => {
      const begin = segment.includes('{') ? segment.indexOf('{') : 9
      return `${9 - begin}${9 - segment.replaceAll('{x}', '').length}${segment}`
    })
  return ranks.join('/')
}
