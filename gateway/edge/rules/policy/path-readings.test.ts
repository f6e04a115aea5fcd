import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { PathTable } from '../path-table.ts'
import { readTarget } from '../request-target.ts'
import { rawReadingsOf, readingsOf } from './path-readings.ts'

const ALL = { encodedSlashes: true, pathParameters: true, underscoreNames: false }
const PIECES = [
  'a',
  'B',
  '.',
  '..',
  '/',
  '%2e',
  '%2F',
  '%2f',
  ';',
  ';x=1',
  '%41',
  '%20',
  '',
  'admin',
  '%252F',
]
const written = fc.array(fc.constantFrom(...PIECES), { maxLength: 16 }).map((pieces) => `/${pieces.join('')}`)

function pathOf(raw: string): string {
  const target = readTarget(raw, ALL)
  assert.equal(typeof target, 'object', `${raw} was refused: ${target}`)
  return (target as { path: string }).path
}

/** The results of any of the steps in any order, as a service may treat a path. */
function* servedAs(path: string, steps: readonly ((path: string) => string)[]): Iterable<string> {
  yield path
  for (const step of steps) {
    const rest = steps.filter((other) => other !== step)
    yield* servedAs(step(path), rest)
  }
}
const decode = (path: string) => path.replaceAll('%2F', '/')
const strip = (path: string) => path.replace(/;[^/]*/g, '')
const merge = (path: string) => path.replace(/\/{2,}/g, '/')
const resolve = (path: string) => new URL(`http://a${path}`).pathname

describe('a path with encoded slashes and parameters', () => {
  it('is in canonical form, so that what is matched is what is forwarded', () => {
    fc.assert(
      fc.property(written, (raw) => {
        const path = pathOf(raw)
        assert.equal(pathOf(path), path)
        assert.ok(!path.includes('%2f') && !path.includes('//') && !/\/\.\.?(\/|$)/.test(path), path)
        const count = (text: string) => text.match(/%2f/gi)?.length ?? 0
        assert.ok(count(path) <= count(raw), 'none is made')
      }),
      { numRuns: 3000 },
    )
  })

  it('keeps as many segments as before, because nothing that stays is decoded', () => {
    assert.equal(pathOf('/npm/@scope%2fname'), '/npm/@scope%2Fname')
    assert.equal(pathOf('/a%2F../b'), '/a%2F../b')
    assert.equal(pathOf('/a%2Fb/../c'), '/c')
    assert.equal(pathOf('/a%252Fb'), '/a%252Fb')
    assert.equal(pathOf('/a;x=%31/b;c'), '/a;x=1/b;c')
  })

  it('reaches nothing that another row governs, however the service treats it', () => {
    const rows = ['/*', '/admin/*', '/a/*', '/a/admin/*', '/a/B', '/B/a/admin'].map((path) => ({
      path,
      methods: undefined,
    }))
    const table = new PathTable(rows)
    let accepted = 0
    fc.assert(
      fc.property(written, (raw) => {
        const path = pathOf(raw)
        const row = table.find(path)
        const isSafe = readingsOf(path)?.every((reading) => table.find(reading) === row)
        if (isSafe !== true) return
        accepted += 1
        for (const served of servedAs(path, [decode, strip, merge, resolve])) {
          assert.equal(table.find(merge(served)), row, `${path} served as ${served}`)
        }
      }),
      { numRuns: 5000 },
    )
    assert.ok(accepted > 1000, String(accepted))
  })

  it('has no readings when one of them has a dot segment', () => {
    for (const path of ['/a%2F..', '/a%2F..%2Fb', '/a%2F../b', '/..;x/b', '/.;/b', '/a;b%2F..%2Fc'])
      assert.equal(readingsOf(path), undefined, path)
  })
})

const RAW_PIECES = [
  'a',
  'admin',
  '.',
  '..',
  '/',
  '//',
  '%2e',
  '%252e',
  '%252F',
  '%255c',
  '%253b',
  '%61',
  '%2561',
  '%25',
  ';',
  '\\',
  '%c3%a9',
]
const TABLE = new PathTable(['/*', '/raw/*', '/raw/admin/*'].map((path) => ({ path, methods: undefined })))

/** Ways of a service to treat a path, which may come in any order. */
const WAYS: readonly ((path: string) => string)[] = [
  (path) => path.replace(/%([0-9A-F]{2})/gi, (_, octet) => String.fromCharCode(Number.parseInt(octet, 16))),
  (path) => path.replace(/%([0-9A-F]{2})/gi, (_, octet) => String.fromCharCode(Number.parseInt(octet, 16))),
  (path) => path.replaceAll('\\', '/'),
  (path) => path.replace(/\/+/g, '/'),
  (path) => path.replace(/;[^/]*/g, ''),
  (path) => new URL(`http://h/${path.replace(/[?#]/g, '_').replace(/^\//, '')}`).pathname,
]

test('no service, whatever its order of ways, reaches a row that the readings do not reach', () => {
  let passed = 0
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...RAW_PIECES), { maxLength: 8 }),
      fc.shuffledSubarray([...WAYS.keys()]),
      (pieces, order) => {
        const raw = `/raw/${pieces.join('')}`
        const target = readTarget(raw)
        if (typeof target === 'string' || TABLE.find(target.path)?.rows[0]?.path !== '/raw/*') return
        const readings = rawReadingsOf(raw)
        if (readings === undefined) return
        if ([...readings].some((reading) => TABLE.find(reading)?.rows[0]?.path !== '/raw/*')) return
        passed++
        const served = order.reduce((path, way) => (WAYS[way] as (path: string) => string)(path), raw)
        assert.match(served, /^\/raw\//, raw)
        assert.doesNotMatch(served, /^\/raw\/admin\//, raw)
      },
    ),
    { numRuns: 3000 },
  )
  assert.ok(passed > 300, `only ${passed} passed`)
})

test('a path has few readings, however long it is', () => {
  const long = fc.array(fc.constantFrom(...RAW_PIECES), { minLength: 200, maxLength: 400 })
  fc.assert(
    fc.property(long, (pieces) => (rawReadingsOf(`/raw/${pieces.join('')}`)?.size ?? 0) <= 3 * 16),
    { numRuns: 50 },
  )
})
