import assert from 'node:assert/strict'
import { BlockList } from 'node:net'
import { describe, it } from 'node:test'
import { downstreamOf, withoutMapping } from './client-address.ts'

const proxies = new BlockList()
proxies.addSubnet('10.0.0.0', 8, 'ipv4')
proxies.addAddress('fd00::1', 'ipv6')

describe('downstreamOf', () => {
  it('is the peer, whatever it claims, when the peer is no trusted proxy', () => {
    assert.deepEqual(downstreamOf('203.0.113.9', { forwardedFor: '198.51.100.1' }, proxies), {
      address: '203.0.113.9',
      peer: '203.0.113.9',
      viaTrustedProxy: false,
    })
    assert.equal(downstreamOf('10.0.0.1', { forwardedFor: '198.51.100.1' }, undefined).address, '10.0.0.1')
  })

  it('shows an IPv4 peer of a dual-stack socket as IPv4', () => {
    assert.equal(withoutMapping('::ffff:203.0.113.9'), '203.0.113.9')
    assert.equal(withoutMapping('2001:db8::7'), '2001:db8::7')
  })

  it('is the rightmost entry that is not itself a trusted proxy', () => {
    assert.equal(
      downstreamOf('10.0.0.1', { forwardedFor: '1.1.1.1, 203.0.113.9, 10.2.3.4' }, proxies).address,
      '203.0.113.9',
    )
    assert.equal(downstreamOf('fd00::1', { forwardedFor: '2001:db8::7' }, proxies).address, '2001:db8::7')
    assert.equal(
      downstreamOf('10.0.0.1', { forwardedFor: '203.0.113.9:5555' }, proxies).address,
      '203.0.113.9',
    )
    assert.equal(
      downstreamOf('10.0.0.1', { forwardedFor: '[2001:db8::7]:443' }, proxies).address,
      '2001:db8::7',
    )
  })

  it('stops at an entry that is no address and believes the last good one', () => {
    assert.equal(
      downstreamOf('10.0.0.1', { forwardedFor: '203.0.113.9, unknown' }, proxies).address,
      '10.0.0.1',
    )
    assert.equal(
      downstreamOf('10.0.0.1', { forwardedFor: 'nonsense, 10.9.9.9' }, proxies).address,
      '10.9.9.9',
    )
    assert.equal(downstreamOf('10.0.0.1', {}, proxies).address, '10.0.0.1')
  })

  it('is the client that Forwarded names when there is no X-Forwarded-For', () => {
    const named = (forwarded: string, peer = '10.0.0.1') => downstreamOf(peer, { forwarded }, proxies).address
    for (const [value, address] of [
      ['for=203.0.113.9', '203.0.113.9'],
      ['for=203.0.113.9;proto=https;by=10.0.0.1', '203.0.113.9'],
      ['proto=https; For="203.0.113.9:4711"', '203.0.113.9'],
      ['for="[2001:db8::7]"', '2001:db8::7'],
      ['for="[2001:db8::7]:4711"', '2001:db8::7'],
      ['for=1.1.1.1, for=203.0.113.9 , for=10.2.3.4', '203.0.113.9'],
      ['for=1.1.1.1,for="203.0.113.9";host="a,b;for=2.2.2.2"', '203.0.113.9'],
      ['for="1\\.1.1.1"', '1.1.1.1'],
      ['for=203.0.113.9, proto=https', '10.0.0.1'],
      ['for=203.0.113.9,', '10.0.0.1'],
      ['for=203.0.113.9, for=_hidden', '10.0.0.1'],
      ['for=203.0.113.9, for=unknown', '10.0.0.1'],
      ['for=203.0.113.9, for="10.2.3.4', '10.0.0.1'],
      ['for=203.0.113.9 for=1.1.1.1', '10.0.0.1'],
      ['203.0.113.9', '10.0.0.1'],
      ['', '10.0.0.1'],
    ] as const)
      assert.equal(named(value), address, value)
    assert.equal(named('for=203.0.113.9', '198.51.100.1'), '198.51.100.1')
    // Text that a client wrote on the left does not hide the address.
    for (const left of ['"', 'for="', 'for=1.1.1.1;x="', 'for="\\', 'for="\\"', 'for=1.1.1.1, x=",y', 'a b'])
      for (const own of [
        'for=203.0.113.9',
        'for="203.0.113.9:1";by="10.0.0.1"',
        'by="a\\",b";for=203.0.113.9',
      ])
        assert.equal(named(`${left}, ${own}`), '203.0.113.9', `${left}, ${own}`)
    const both = { forwardedFor: '203.0.113.9', forwarded: 'for=1.1.1.1' }
    assert.equal(downstreamOf('10.0.0.1', both, proxies).address, '203.0.113.9')
  })

  it('reads the longest Forwarded quickly, whatever its text', () => {
    const usage = process.cpuUsage()
    for (const part of [' ', '\t', '"', '\\', ',', ',"', ';', 'x=";', 'x= ', 'for=1.1.1.1,'])
      for (const end of ['', '"', ' x', ',"'])
        downstreamOf('10.0.0.1', { forwarded: `x=y;${part.repeat(16_000 / part.length)}${end}` }, proxies)
    assert.ok(process.cpuUsage(usage).user < 1_000_000)
  })
})
