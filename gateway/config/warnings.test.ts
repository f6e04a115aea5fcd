import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parseLimits } from '../limits/table.ts'
import { parseGatewayFile } from './gateway-file.ts'
import { warningsOf } from './warnings.ts'

function warnings(routes: object[], limits: object[]): readonly string[] {
  const gateway = parseGatewayFile(
    'g',
    JSON.stringify({ routes: routes.map((row) => ({ auth: ['none'], ...row })) }),
  )
  const rows = limits.map((row) => ({ limit: 1, window: '1s', purpose: 'x', ...row }))
  return warningsOf(gateway.value!.routes, parseLimits('l', JSON.stringify({ limits: rows })).value!)
}

test('a limit that no route can reach is warned of, by path or by method', () => {
  const routes = [{ path: '/api/*', methods: ['GET'] }]
  assert.deepEqual(warnings(routes, [{ path: '/other' }]), [
    'the limit "other" (/other) has no effect: no route lets such a request through',
  ])
  assert.equal(warnings(routes, [{ path: '/api/a', methods: ['POST'] }]).length, 1)
})

test('a limit that a route can reach is not warned of', () => {
  const routes = [{ path: '/api/*', methods: ['GET'] }, { path: '/Login' }]
  assert.deepEqual(
    warnings(routes, [{ path: '/api/a', methods: ['HEAD'] }, { path: '/login' }, { path: '/*' }]),
    [],
  )
})

test('every limit that comes with the gateway has a route', () => {
  const text = (name: string) => readFileSync(new URL(`../../config/${name}`, import.meta.url), 'utf8')
  const routes = parseGatewayFile('g', text('gateway.json')).value!.routes
  assert.deepEqual(warningsOf(routes, parseLimits('l', text('limits.json')).value!), [])
})
