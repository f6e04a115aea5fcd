import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { PathTable } from '../path-table.ts'
import { readTarget } from '../request-target.ts'
import { rawReadingsOf } from './raw-readings.ts'

const PIECES = [
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

/** Ways of a service to treat a path, each of which may come at any place among the others. */
const WAYS: readonly ((path: string) => string)[] = [
  (path) => path.replace(/%([0-9A-F]{2})/gi, (_, octet) => String.fromCharCode(Number.parseInt(octet, 16))),
  (path) => path.replace(/%([0-9A-F]{2})/gi, (_, octet) => String.fromCharCode(Number.parseInt(octet, 16))),
  (path) => path.replaceAll('\\', '/'),
  (path) => path.replace(/\/+/g, '/'),
  (path) => path.replace(/;[^/]*/g, ''),
  (path) => new URL(`http://h/${path.replace(/[?#]/g, '_').replace(/^\//, '')}`).pathname,
]

test('no service that treats a path in its own order reaches another row than the readings do', () => {
  let passed = 0
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...PIECES), { maxLength: 8 }),
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
  const long = fc.array(fc.constantFrom(...PIECES), { minLength: 200, maxLength: 400 })
  fc.assert(
    fc.property(long, (pieces) => (rawReadingsOf(`/raw/${pieces.join('')}`)?.size ?? 0) <= 3 * 16),
    { numRuns: 50 },
  )
})
