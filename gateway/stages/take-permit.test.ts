import assert from 'node:assert/strict'
import { BlockList } from 'node:net'
import { describe, it } from 'node:test'
import { Exchange } from '../exchange.ts'
import { makeExchange, makeGateway, PEER } from './stage.test-support.ts'
import { takePermit } from './take-permit.ts'

describe('takePermit', () => {
  it('takes a permit, which counts for the network of the connection', () => {
    const { gateway } = makeGateway()
    const { exchange } = makeExchange()
    assert.equal(takePermit(gateway, exchange), undefined)
    assert.equal(exchange.permitHolder, exchange.req.network.name)
    assert.equal(gateway.load.permits.taken, 1)
  })

  it('refuses when the last permit is gone, and takes none', () => {
    const { gateway } = makeGateway({ maxInFlight: 1 })
    assert.equal(takePermit(gateway, makeExchange().exchange), undefined)
    const { exchange } = makeExchange()
    assert.equal(takePermit(gateway, exchange)?.code, 'overloaded')
    assert.equal(exchange.permitHolder, undefined)
    assert.equal(gateway.load.permits.taken, 1)
  })

  it('counts a client behind a trusted proxy by the address that the proxy names', () => {
    const trustedProxies = new BlockList()
    trustedProxies.addAddress(PEER)
    const { gateway } = makeGateway({ settings: { trustedProxies } })
    const behind = (address: string) => {
      const { exchange } = makeExchange()
      const named = new Exchange({ ...exchange, address, viaTrustedProxy: true })
      assert.equal(takePermit(gateway, named), undefined)
      return named
    }
    const [first, again, other] = ['198.51.100.1', '198.51.100.1', '198.51.100.2'].map(behind)
    assert.equal(first?.permitHolder, again?.permitHolder)
    assert.notEqual(first?.permitHolder, other?.permitHolder)
    assert.notEqual(first?.permitHolder, first?.req.network.name)
    const itself = behind(PEER)
    assert.equal(itself.permitHolder, itself.req.network.name)
  })
})
