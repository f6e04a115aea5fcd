import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ServedRoute } from '../exchange.ts'
import { PendingTake } from '../limits/limiter.ts'
import { makeRow } from '../limits/table/limit-row.test-support.ts'
import { LimitTable } from '../limits/table/limit-table.ts'
import { askStore } from './ask-store.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute, PEER } from './stage.test-support.ts'

const ROW = makeRow({
  name: 'x',
  path: '/api/x',
  limit: 3,
  purpose: 'x',
})

interface Case {
  readonly scopes?: readonly string[]
  readonly complete?: boolean
  readonly path?: string
  readonly alone?: boolean
  readonly operations?: ServedRoute['operations']
  readonly idempotency?: ServedRoute['idempotency']
  readonly stepUp?: ServedRoute['stepUp']
  readonly authorizationDetails?: ServedRoute['authorizationDetails']
  readonly decision?: ServedRoute['decision']
  readonly signsRequests?: boolean
  readonly signsResponses?: boolean
}

function asked({ scopes = [], complete = true, path = '/api/x', alone = false, ...row }: Case) {
  const keys: string[] = []
  const table = new LimitTable([ROW])
  const limiter = { find: table.find.bind(table), take: () => assert.fail(), close: () => {} }
  const ask = (row: ConstructorParameters<typeof PendingTake>[0], key: string) => {
    keys.push(key)
    return new PendingTake(row)
  }
  const { gateway } = makeGateway({ limiter: alone ? limiter : { ...limiter, ask } })
  const { exchange } = makeExchange({ complete })
  exchange.path = path
  exchange.route = makeRoute({ scopes: [scopes], ...row })
  exchange.principal = makePrincipal({ key: 'user-1', scopes: new Set(['read']) })
  askStore(gateway, exchange)
  return { keys, pending: exchange.pendingTake }
}

describe('askStore', () => {
  it('asks for the caller under the row of the request', () => {
    const { keys, pending } = asked({ scopes: ['read'] })
    assert.deepEqual([keys, pending?.row.name], [['p:user-1'], 'x'])
  })

  it('asks nothing without a shared store, without a row, while the body is missing, or before a validation', () => {
    for (const one of [{ alone: true }, { path: '/other' }, { complete: false }, { operations: {} }]) {
      assert.deepEqual(asked(one), { keys: [], pending: undefined })
    }
  })

  it('asks nothing for a request that will be refused for its scopes', () => {
    assert.deepEqual(asked({ scopes: ['read', 'write'] }), { keys: [], pending: undefined })
  })

  it('asks nothing for a request that will be refused for the authentication of its user', () => {
    const stepUp = { acr: ['sca'], maxAgeMs: undefined }
    assert.deepEqual(asked({ stepUp }), { keys: [], pending: undefined })
    assert.deepEqual(asked({ stepUp: { acr: undefined, maxAgeMs: undefined } }).keys, ['p:user-1'])
  })

  it('asks nothing for a request that a later stage may refuse for its body or by a decision', () => {
    const authorizationDetails = { type: 'payment', details: [], members: [] }
    const decision = { url: '', timeoutMs: 1, cacheMs: 0, key: 'k', members: [], parameters: [] }
    const rows: Case[] = [
      { authorizationDetails },
      { decision },
      { signsRequests: true },
      { signsResponses: true },
    ]
    for (const row of rows) assert.deepEqual(asked(row), { keys: [], pending: undefined })
  })

  it('asks nothing for a row with idempotency, whose replays take no hit', () => {
    const idempotency = {
      ...{ required: false, header: 'idempotency-key', maxKeyLength: 255, keepMs: 60_000 },
      ...{ maxResponseBytes: 1, maxRequestBytes: 1, maxKeys: 1, resolves: false },
      onStoreFailure: 'deny' as const,
    }
    assert.deepEqual(asked({ idempotency }), { keys: [], pending: undefined })
  })

  it('counts a caller without credentials by its address', () => {
    const table = new LimitTable([ROW])
    const keys: string[] = []
    const { gateway } = makeGateway({
      limiter: {
        find: table.find.bind(table),
        close: () => {},
        ask: (row, key) => {
          keys.push(key)
          return new PendingTake(row)
        },
      },
    })
    const { exchange } = makeExchange()
    exchange.path = '/api/x'
    askStore(gateway, exchange)
    assert.deepEqual(keys, [`a:${PEER}`])
  })
})
