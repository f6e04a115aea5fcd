import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  type AcceptedConnection,
  type Activity,
  type ClientNetwork,
  ClientNetworks,
} from './client-networks.ts'

interface TestConnection extends AcceptedConnection {
  activity: Activity
}

const ACCEPTED = { slot: -1, peer: '', socket: new Socket() }

function connectFrom(
  networks: ClientNetworks,
  name: string,
  activity: Partial<Activity> = {},
): TestConnection {
  const network = networks.networkNamed(name, name.startsWith('proxy'))
  const connection = {
    ...ACCEPTED,
    network,
    activity: { isIdle: true, deadlineMs: 0, ...activity },
  }
  networks.add(connection)
  return connection
}

describe('the networks of clients', () => {
  it('are known while they have connections, one entry for each network', () => {
    const networks = new ClientNetworks()
    const first = connectFrom(networks, 'a')
    const second = connectFrom(networks, 'a')
    assert.equal(first.network, second.network)
    assert.deepEqual([networks.size, networks.largest], [2, 2])
    networks.remove(first)
    networks.remove(first)
    assert.deepEqual([networks.size, networks.largest], [1, 1])
    networks.remove(second)
    assert.deepEqual([networks.size, networks.largest], [0, 0])
    assert.notEqual(networks.networkNamed('a', false), first.network)
  })

  it('are two for an address that becomes a proxy, or is one no longer, while it has older connections', () => {
    const networks = new ClientNetworks()
    for (const isProxy of [false, true]) {
      const before = networks.networkNamed('10.0.0.5', isProxy)
      networks.add({ ...ACCEPTED, network: before, activity: { isIdle: true, deadlineMs: 0 } })
      const now = networks.networkNamed('10.0.0.5', !isProxy)
      assert.deepEqual([before.isProxy, now.isProxy], [isProxy, !isProxy])
      assert.equal(networks.networkNamed('10.0.0.5', isProxy), before)
    }
  })

  it('give up the connection that has been idle for longest, and none with an open request', () => {
    const networks = new ClientNetworks()
    const connections = [5, 3, 4].map((deadlineMs) => connectFrom(networks, 'a', { deadlineMs }))
    connectFrom(networks, 'a', { isIdle: false, deadlineMs: 1 })
    const { network } = connections[0] as AcceptedConnection
    assert.equal(networks.idleOf(network), connections[1])
    for (const connection of connections) connection.activity = { isIdle: false, deadlineMs: 0 }
    assert.equal(networks.idleOf(network), undefined)
    assert.equal(networks.idleOfLargest(), undefined)
  })

  it('are searched in the order of their number of connections, proxies last', () => {
    const networks = new ClientNetworks()
    const ofProxy = Array.from({ length: 9 }, () => connectFrom(networks, 'proxy'))
    const few = connectFrom(networks, 'few', { deadlineMs: 1 })
    const many = [3, 2].map((deadlineMs) => connectFrom(networks, 'many', { deadlineMs }))
    assert.equal(networks.largest, 2)
    assert.equal(networks.idleOfLargest(), many[1])
    assert.equal(networks.anyOfLargest()?.network.name, 'many')
    for (const connection of many) connection.activity = { isIdle: false, deadlineMs: 0 }
    assert.equal(networks.idleOfLargest(), few)
    few.activity = { isIdle: false, deadlineMs: 0 }
    assert.ok(ofProxy.includes(networks.idleOfLargest() as TestConnection))
  })

  it('are searched also behind networks with many connections, all busy', () => {
    const networks = new ClientNetworks()
    for (let i = 0; i < 63 * 20; i++) connectFrom(networks, `many-${i % 63}`, { isIdle: false })
    const idle = connectFrom(networks, 'few')
    assert.equal(networks.idleOfLargest(), idle)
  })

  it('find an idle connection soon, even among thousands of busy ones', () => {
    const networks = new ClientNetworks()
    for (let i = 0; i < 5000; i++) connectFrom(networks, 'a', { isIdle: false })
    const idle = connectFrom(networks, 'a')
    let looks = 0
    while (networks.idleOf(idle.network) === undefined) looks++
    assert.ok(looks < 5001 / 16 + 1, `${looks}`)
  })

  it('are counted right in any order of opening and closing, streams too', () => {
    const names = fc.constantFrom('a', 'b', 'c', 'proxy')
    const kinds = fc.constantFrom('connect', 'connect', 'close', 'stream', 'stream', 'stream', 'end')
    fc.assert(
      fc.property(fc.array(fc.tuple(names, kinds, fc.nat(50)), { maxLength: 300 }), (steps) => {
        const networks = new ClientNetworks()
        const open: TestConnection[] = []
        // A stream can end after the last connection of its network.
        const streams: ClientNetwork[] = []
        for (const [name, kind, which] of steps) {
          const any = open[which % open.length]
          if (kind === 'connect' || any === undefined) open.push(connectFrom(networks, name))
          else if (kind === 'close') networks.remove(open.splice(which % open.length, 1)[0] as TestConnection)
          else if (kind === 'stream') {
            streams.push(any.network)
            networks.countStream(any.network, 1)
          } else if (streams.length > 0)
            networks.countStream(streams.splice(which % streams.length, 1)[0] as ClientNetwork, -1)
          const parts = new Map<ClientNetwork, number>()
          for (const { network } of open) parts.set(network, (parts.get(network) ?? 0) + 1)
          for (const network of streams)
            if (parts.has(network)) parts.set(network, (parts.get(network) ?? 0) + 1)
          for (const [network, part] of parts) assert.equal(network.part, part)
          assert.equal(parts.size, new Set(open.map(({ network }) => network.name)).size)
          const shared = [...parts].filter(([{ isProxy }]) => !isProxy).map(([, part]) => part)
          const largest = Math.max(0, ...shared)
          assert.deepEqual([networks.size, networks.taken], [open.length, open.length + streams.length])
          assert.equal(networks.largest, largest)
          if (largest > 0) assert.equal(networks.anyOfLargest()?.network.part, largest)
        }
      }),
    )
  })
})
