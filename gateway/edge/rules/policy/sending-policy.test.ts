import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseGatewayFile } from '../../../config/gateway-file.ts'
import { PathTable } from '../path-table.ts'
import { readTarget } from '../request-target.ts'
import { isRewritable, type Rewrite, rewrittenPath } from './sending-policy.ts'

function rewriteOf(row: object): Rewrite {
  const routes = [{ auth: ['none'], ...row }]
  const { value, faults } = parseGatewayFile('g', JSON.stringify({ routes }))
  assert.deepEqual(faults, undefined)
  return value!.routes[0]!.sending!.rewrite!
}

const PIECES = [
  'a',
  'Z9',
  '.',
  '..',
  '/',
  '%2e',
  '%2E%2e',
  '%2F',
  '%252F',
  '%25',
  '%3F',
  '%23',
  '?',
  ';x',
  '%5C',
  '-',
  ':',
  '%E2%82%AC',
  '2',
  '',
]
const targets = fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((pieces) => pieces.join(''))

/** The path that the service gets; undefined when the request is refused, or is another row's. */
function sent(row: { readonly path: string; readonly rewrite: object }, raw: string): string | undefined {
  const target = readTarget(raw, { encodedSlashes: false, pathParameters: true })
  if (typeof target === 'string') return undefined
  if (new PathTable([{ path: row.path, methods: undefined }]).find(target.path) === undefined)
    return undefined
  const rewrite = rewriteOf(row)
  return isRewritable(rewrite, target.path) ? rewrittenPath(rewrite, target.path) : undefined
}

test('a rewritten path begins with the fixed part of its rewrite and stays below it, whatever was asked for', () => {
  let tried = 0
  for (const prefix of ['/v2', '/v2/deep', '/'])
    fc.assert(
      fc.property(targets, (rest) => {
        const path = sent({ path: '/api/*', rewrite: { prefix } }, `/api/${rest}`)
        if (path === undefined) return
        tried++
        assert.ok(path.startsWith(prefix === '/' ? '/' : `${prefix}/`), path)
        assert.equal(new URL(`http://h${path}`).pathname.startsWith(prefix), true, path)
        assert.doesNotMatch(path, /\/\.{1,2}(?:\/|$)|\/\/|[?#\\]/)
      }),
    )
  assert.ok(tried > 50, `only ${tried} were rewritten`)
})

test('a rewritten template has the segments of its rewrite, its fixed parts and the same parameters', () => {
  const rows = [
    { path: '/u/{id}', rewrite: { path: '/internal/{id}' } },
    { path: '/u/{id}', rewrite: { path: '/{id}.json/x' } },
    { path: '/u/{a}-{b}', rewrite: { path: '/p/{b}/q/{a}' } },
    { path: '/u/{a}2{b}', rewrite: { path: '/p/{a}/{b}' } },
    { path: '/u/{id}:close', rewrite: { path: '/close/{id}/now' } },
  ]
  let tried = 0
  for (const row of rows) {
    const form = new RegExp(`^${row.rewrite.path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`)
    const values = row.path.endsWith(':close') ? targets.map((text) => `${text}:close`) : targets
    fc.assert(
      fc.property(values, (value) => {
        const path = sent(row, `/u/${value}`)
        if (path === undefined) return
        tried++
        assert.match(path, form)
        assert.doesNotMatch(path, /\/\.{1,2}(?:\/|$)|[?#\\]|%(?![0-9A-F]{2})|%(?:2F|5C|00)/)
        assert.equal(
          new URL(`http://h${path}`).pathname.split('/').length,
          row.rewrite.path.split('/').length,
        )
      }),
      { numRuns: 500 },
    )
  }
  assert.ok(tried > 100, `only ${tried} were rewritten`)
})

test('however a service reads semicolons and encoded slashes, a rewritten path stays where its rewrite leads', () => {
  const [inner, suffixed] = [
    rewriteOf({ path: '/u-{id}/x', rewrite: { path: '/internal/{id}' } }),
    rewriteOf({ path: '/u/{id}', rewrite: { path: '/i/{id}.json' } }),
  ]
  for (const id of ['..;', '..;x', '.;a=b', '.;;']) assert.equal(isRewritable(inner, `/u-${id}/x`), false, id)
  assert.equal(isRewritable(inner, '/u-a;x/x'), true)
  assert.equal(isRewritable(suffixed, '/u/a;x'), false, 'a service would not see ".json"')
  const root = rewriteOf({ path: '/root/*', rewrite: { prefix: '/' } })
  for (const rest of ['%2Fevil.example', ';/evil.example', ';x/evil.example', ';x%2Fevil.example'])
    assert.equal(isRewritable(root, `/root/${rest}`), false, `${rest} names a host once decoded`)
  for (const rest of ['', 'a%2Fb', ';x', 'a;x/b'])
    assert.equal(isRewritable(root, `/root/${rest}`), true, rest)
  const below = rewriteOf({ path: '/root/*', rewrite: { prefix: '/v2' } })
  assert.equal(isRewritable(below, '/root/%2Fa'), true)
})
