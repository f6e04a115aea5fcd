import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { PathTable } from '../path-table.ts'
import { readTarget } from '../request-target.ts'
import { readingsOf } from './path-readings.ts'

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

/** Every way in which a service may treat a path, each step or not, and in any order. */
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
  it('is in one form that is its own canonical form, so that what is matched is what is forwarded', () => {
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

  it('decodes nothing that stays: as many segments as before', () => {
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

  it('has no reading when one of them has a dot segment', () => {
    for (const path of ['/a%2F..', '/a%2F..%2Fb', '/a%2F../b', '/..;x/b', '/.;/b', '/a;b%2F..%2Fc'])
      assert.equal(readingsOf(path), undefined, path)
  })
})
