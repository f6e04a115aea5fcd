import assert from 'node:assert/strict'
import { BlockList } from 'node:net'
import { describe, it } from 'node:test'
import { downstreamOf, withoutMapping } from './client-address.ts'

const proxies = new BlockList()
proxies.addSubnet('10.0.0.0', 8, 'ipv4')
proxies.addAddress('fd00::1', 'ipv6')

describe('downstreamOf', () => {
  it('is the peer, whatever it claims, when the peer is no trusted proxy', () => {
    assert.deepEqual(downstreamOf('203.0.113.9', '198.51.100.1', proxies), {
      address: '203.0.113.9',
      peer: '203.0.113.9',
      viaTrustedProxy: false,
    })
    assert.equal(downstreamOf('10.0.0.1', '198.51.100.1', undefined).address, '10.0.0.1')
  })

  it('shows an IPv4 peer of a dual-stack socket as IPv4', () => {
    assert.equal(withoutMapping('::ffff:203.0.113.9'), '203.0.113.9')
    assert.equal(withoutMapping('2001:db8::7'), '2001:db8::7')
  })

  it('is the rightmost entry that is not itself a trusted proxy', () => {
    assert.equal(downstreamOf('10.0.0.1', '1.1.1.1, 203.0.113.9, 10.2.3.4', proxies).address, '203.0.113.9')
    assert.equal(downstreamOf('fd00::1', '2001:db8::7', proxies).address, '2001:db8::7')
    assert.equal(downstreamOf('10.0.0.1', '203.0.113.9:5555', proxies).address, '203.0.113.9')
    assert.equal(downstreamOf('10.0.0.1', '[2001:db8::7]:443', proxies).address, '2001:db8::7')
  })

  it('stops at an entry that is no address and believes the last good one', () => {
    assert.equal(downstreamOf('10.0.0.1', '203.0.113.9, unknown', proxies).address, '10.0.0.1')
    assert.equal(downstreamOf('10.0.0.1', 'nonsense, 10.9.9.9', proxies).address, '10.9.9.9')
    assert.equal(downstreamOf('10.0.0.1', undefined, proxies).address, '10.0.0.1')
  })
})
