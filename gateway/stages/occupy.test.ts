import assert from 'node:assert/strict'
import { BlockList } from 'node:net'
import { describe, it } from 'node:test'
import { Exchange } from '../exchange.ts'
import { occupy } from './occupy.ts'
import { makeExchange, makeGateway, PEER } from './stage.test-support.ts'

describe('occupy', () => {
  it('takes a permit, which counts for the connection', () => {
    const { gateway } = makeGateway()
    const { exchange } = makeExchange()
    assert.equal(occupy(gateway, exchange), undefined)
    assert.equal(exchange.share, exchange.req.network)
    assert.equal(gateway.load.permits.taken, 1)
  })

  it('refuses when the last permit is gone, and takes none', () => {
    const { gateway } = makeGateway({ maxInFlight: 1 })
    assert.equal(occupy(gateway, makeExchange().exchange), undefined)
    const { exchange } = makeExchange()
    assert.equal(occupy(gateway, exchange)?.code, 'overloaded')
    assert.equal(exchange.share, undefined)
    assert.equal(gateway.load.permits.taken, 1)
  })

  it('counts a client behind a trusted proxy by the address that the proxy names', () => {
    const trustedProxies = new BlockList()
    trustedProxies.addAddress(PEER)
    const { gateway } = makeGateway({ settings: { trustedProxies } })
    const behind = (address: string) => {
      const { exchange } = makeExchange()
      const named = new Exchange({ ...exchange, address, viaTrustedProxy: true })
      assert.equal(occupy(gateway, named), undefined)
      return named
    }
    const [first, again, other] = ['198.51.100.1', '198.51.100.1', '198.51.100.2'].map(behind)
    assert.equal(first?.share, again?.share)
    assert.notEqual(first?.share, other?.share)
    assert.notEqual(first?.share, first?.req.network)
    const itself = behind(PEER)
    assert.equal(itself.share, itself.req.network)
  })
})
