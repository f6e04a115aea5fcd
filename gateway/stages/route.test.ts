import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { admit } from './admit.ts'
import { route } from './route.ts'
import { makeExchange, makeGateway, makeRoute } from './stage.test-support.ts'

const ROUTES = [
  makeRoute({ path: '/api/*', methods: new Set(['GET', 'POST']) }),
  makeRoute({ path: '/api/admin', methods: new Set(['GET']) }),
  makeRoute({ path: '/api/admin', methods: new Set(['DELETE']) }),
]

function routed(path: string, request: Parameters<typeof makeExchange>[0] = {}) {
  const { exchange } = makeExchange(request)
  exchange.path = path
  const refused = route(makeGateway({ routes: ROUTES }).gateway, exchange)
  return { refused, row: exchange.route }
}

describe('route', () => {
  it('sets the row of the most specific path and of the method', () => {
    assert.equal(routed('/api/x').row, ROUTES[0])
    assert.equal(routed('/api/admin').row, ROUTES[1])
    assert.equal(routed('/api/admin', { method: 'DELETE' }).row, ROUTES[2])
  })

  it('refuses a path without a row', () => {
    const { refused, row } = routed('/other')
    assert.deepEqual([refused?.code, row], ['not_found', undefined])
  })

  it('refuses another spelling of a more specific path, which the upstream may take for the same', () => {
    for (const path of ['/api/Admin', '/api/admin/', '/API/ADMIN']) {
      assert.deepEqual([routed(path).refused?.code, routed(path).row], ['not_found', undefined], path)
    }
  })

  it('names every method of the path when it refuses one', () => {
    const { refused, row } = routed('/api/admin', { method: 'POST' })
    assert.equal(refused?.code, 'method_not_allowed')
    assert.deepEqual(refused.headers, ['Allow', 'GET, DELETE'])
    assert.equal(row, undefined)
  })

  it('lets a method that is not registered reach only rows that list it', () => {
    const rows = [makeRoute({ path: '/all/*' }), makeRoute({ path: '/cache/*', methods: new Set(['PURGE']) })]
    const purge = (path: string) => {
      const { exchange } = makeExchange({ method: 'PURGE', target: path })
      const { gateway } = makeGateway({ routes: rows })
      return (admit(gateway, exchange) ?? route(gateway, exchange))?.code ?? exchange.route
    }
    assert.equal(purge('/cache/a'), rows[1])
    assert.equal(purge('/all/a'), 'method_not_allowed')
    assert.equal(purge('/other'), 'not_found')
  })

  it('refuses a body that is announced as longer than the row accepts', () => {
    const withLength = (length: number) =>
      routed('/api/x', { method: 'POST', headers: { 'Content-Length': String(length) } }).refused
    assert.equal(withLength(101)?.code, 'body_too_large')
    assert.equal(withLength(100), undefined)
    // The caller learns the bound, the operator also the key to change.
    assert.match(String(withLength(101)?.detail), /larger than 100 bytes/)
    assert.match(String(withLength(101)?.cause), /100 bytes \(maxBodyBytes/)
  })
})
