import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { keysOf, type Principal } from '../principal.ts'
import { limitKey } from './limit-key.ts'

const alice: Principal = {
  method: 'bearer',
  subject: 'alice',
  client: undefined,
  session: undefined,
  sessionName: undefined,
  expiresAtMs: undefined,
  scopes: new Set(),
  scope: '',
  ...keysOf('user:alice'),
}

describe('the key of a limit', () => {
  test('is the principal when there is one, unless the row asks for the address', () => {
    assert.equal(limitKey('caller', alice, '203.0.113.9'), 'p:user:alice')
    assert.equal(limitKey('address', alice, '203.0.113.9'), 'a:203.0.113.9')
  })

  test('is the address when there is no principal', () => {
    for (const per of ['caller', 'address'] as const) {
      assert.equal(limitKey(per, undefined, '203.0.113.9'), 'a:203.0.113.9')
    }
  })

  test('cannot be chosen by a principal so that it is the key of an address', () => {
    const impostor = { ...alice, ...keysOf('a:203.0.113.9') }
    assert.notEqual(
      limitKey('caller', impostor, '198.51.100.1'),
      limitKey('caller', undefined, '203.0.113.9'),
    )
  })

  test('is the app for `client`, and app and user together for `client+user`', () => {
    const keysOfApp = (sub: string, app: string) => {
      const principal = { ...alice, subject: sub, client: app, ...keysOf(`user:${sub}`) }
      return (['caller', 'user', 'client', 'client+user'] as const).map((per) =>
        limitKey(per, principal, '-'),
      )
    }
    const [caller, user, client, both] = keysOfApp('alice', 'tpp-1')
    assert.deepEqual([caller, user], ['p:user:alice', 'p:user:alice'])
    const otherApp = keysOfApp('alice', 'tpp-2')
    assert.deepEqual(otherApp.slice(0, 2), [caller, user])
    assert.ok(otherApp[2] !== client && otherApp[3] !== both)
    const otherUser = keysOfApp('bob', 'tpp-1')
    assert.equal(otherUser[2], client)
    assert.ok(otherUser[0] !== caller && otherUser[3] !== both)
  })

  test('is the user or the app alone where the other is missing', () => {
    const machine = { ...alice, subject: undefined, client: 'tpp-1', ...keysOf('client:tpp-1') }
    for (const per of ['caller', 'user', 'client', 'client+user'] as const) {
      assert.equal(limitKey(per, alice, '203.0.113.9'), 'p:user:alice')
      assert.equal(limitKey(per, machine, '203.0.113.9'), 'p:client:tpp-1')
      assert.equal(limitKey(per, undefined, '203.0.113.9'), 'a:203.0.113.9')
    }
    const user = { ...alice, client: 'tpp-1' }
    assert.equal(limitKey('client', user, '-'), limitKey('client', machine, '-'))
  })

  test('differs for all different callers, whatever their names hold', () => {
    const name = fc.string({
      unit: fc.constantFrom('a', 'b', '1', '3', ' ', ':', '+', '#'),
      minLength: 1,
      maxLength: 5,
    })
    const caller = fc.tuple(fc.option(name, { nil: undefined }), fc.option(name, { nil: undefined }))
    const keyOf = ([sub, app]: [string | undefined, string | undefined]) => {
      const key = sub === undefined ? `client:${app}` : `user:${sub}`
      const principal = { ...alice, subject: sub, client: app, ...keysOf(key) }
      return limitKey('client+user', sub === undefined && app === undefined ? undefined : principal, '-')
    }
    fc.assert(
      fc.property(caller, caller, (one, other) => {
        const same = one[0] === other[0] && one[1] === other[1]
        assert.equal(keyOf(one) === keyOf(other), same)
      }),
      {
        examples: [
          [
            ['b', 'a'],
            ['a b', undefined],
          ],
          [
            ['b c', 'a'],
            ['c', 'a b'],
          ],
          [
            ['1:ab', 'x'],
            ['ab', 'x1:'],
          ],
        ],
      },
    )
  })

  test('is the IPv4 address for every form of it that is mapped into IPv6', () => {
    for (const form of [
      '::ffff:203.0.113.9',
      '::FFFF:203.0.113.9',
      '::ffff:cb00:7109',
      '0:0:0:0:0:ffff:CB00:7109',
      '::ffff:203.0.113.9%eth0',
      '0000:0000:0000:0000:0000:ffff:203.0.113.9',
    ]) {
      assert.equal(limitKey('address', undefined, form), 'a:203.0.113.9', form)
    }
  })

  test('is the /64 of an IPv6 address in any textual form', () => {
    const forms = [
      '2001:db8:0:1::',
      '2001:db8:0:1::1',
      '2001:DB8:0:1:ffff:ffff:ffff:ffff',
      '2001:0db8:0000:0001:0:0:0:1',
      '2001:db8::1:0:0:0:1',
      '2001:db8:0:1::203.0.113.9',
      '2001:db8::1:1:2:3:4%en0',
    ]
    for (const form of forms) assert.equal(limitKey('address', undefined, form), 'a:2001:db8:0:1::/64', form)
    assert.equal(limitKey('address', undefined, '::1'), 'a:0:0:0:0::/64')
    assert.equal(limitKey('address', undefined, '::'), 'a:0:0:0:0::/64')
    assert.equal(limitKey('address', undefined, '1::'), 'a:1:0:0:0::/64')
    assert.equal(limitKey('address', undefined, 'fe80::1%eth0'), 'a:fe80:0:0:0::/64')
    assert.equal(limitKey('address', undefined, '::203.0.113.9'), 'a:0:0:0:0::/64')
    assert.equal(limitKey('address', undefined, '::fffe:203.0.113.9'), 'a:0:0:0:0::/64')
    assert.notEqual(limitKey('address', undefined, '2001:db8:0:2::1'), 'a:2001:db8:0:1::/64')
  })

  test('is the same for every way of writing the same /64, and differs for every other', () => {
    const groups = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 })
    fc.assert(
      fc.property(groups, groups, ([a, b, c, d, ...host], other) => {
        const network = [a, b, c, d].map((group) => group!.toString(16))
        const long = [
          ...network.map((group) => group.padStart(4, '0').toUpperCase()),
          ...host.map((group) => group.toString(16)),
        ]
        const key = limitKey('address', undefined, long.join(':'))
        fc.pre(network.some((group) => group !== '0'))
        assert.equal(key, `a:${network.join(':')}::/64`)
        const compressed = new URL(`http://[${long.join(':')}]/`).hostname.slice(1, -1)
        assert.equal(limitKey('address', undefined, compressed), key)
        const elsewhere = other.map((group) => group.toString(16))
        fc.pre(elsewhere.slice(0, 4).join() !== network.join())
        assert.notEqual(limitKey('address', undefined, elsewhere.join(':')), key)
      }),
    )
  })

  test('is the text itself when that is no address', () => {
    assert.equal(limitKey('address', undefined, 'unix:'), 'a:unix:')
    assert.equal(limitKey('address', undefined, ''), 'a:')
  })
})
