import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { makeExchange, makeGateway, NOW_MS, PEER } from '../stage.test-support.ts'
import { screenAddress } from './screen-address.ts'

const REFUSED = { allowed: false, remaining: 0, resetSeconds: 7 }

describe('screenAddress', () => {
  it('does nothing unless it is configured', () => {
    assert.equal(screenAddress(makeGateway().gateway, makeExchange().exchange), undefined)
  })

  it('counts the address on the steady clock, whatever is asked for', () => {
    const taken: unknown[] = []
    const take = (...args: unknown[]) => {
      taken.push(args)
      return { ...REFUSED, allowed: true }
    }
    const { gateway } = makeGateway({ addressRate: { take, limitTo: () => {} } })
    assert.equal(screenAddress(gateway, makeExchange({ target: 'no target' }).exchange), undefined)
    assert.deepEqual(taken, [[`a:${PEER}`, NOW_MS]])
  })

  it('refuses with the time to wait, and names the path for the record', () => {
    const { gateway } = makeGateway({ addressRate: { take: () => REFUSED, limitTo: () => {} } })
    const { exchange } = makeExchange({ target: '/api/x?y' })
    const refused = screenAddress(gateway, exchange)
    assert.equal(refused?.code, 'address_rate_exceeded')
    assert.deepEqual(refused.headers, ['Retry-After', '7'])
    assert.equal(exchange.path, '/api/x')
  })
})
