import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { StoreConnection } from './connection/store-connection.ts'
import { NO_REDIS, startAddress, startRedis, storeAt, until } from './redis-server.test-support.ts'
import { StoreEvents, streamKey } from './store-events.ts'
import { StoreKeys } from './store-keys.ts'

test('a lost connection is not reported again by its events', async () => {
  const faults: string[] = []
  const third = Promise.withResolvers<void>()
  let tries = 0
  let isReady = true
  const events = new StoreEvents({
    connection: {
      get isReady() {
        return isReady
      },
      send: async () => {
        if (++tries === 3) third.resolve()
        isReady = false
        setImmediate(() => (isReady = true))
        throw new Error('Disconnects client')
      },
      onReady: (listener) => listener(),
      reset: assert.fail,
      close: () => undefined,
    },
    keys: new StoreKeys('test', 'k'),
    id: 'me',
    beforeFollowing: async () => undefined,
    onEvent: assert.fail,
    onFault: (cause) => faults.push(cause),
  })
  await third.promise
  events.close()
  assert.deepEqual(faults, [])
})

test('a store that falls silent while its sessions are read gets a new connection', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let resets = 0
  const reading = Promise.withResolvers<void>()
  const events = new StoreEvents({
    connection: {
      isReady: true,
      send: ([command]) => {
        if (command === 'XREVRANGE') return Promise.resolve([])
        reading.resolve()
        return new Promise(() => undefined)
      },
      onReady: (listener) => listener(),
      reset: () => resets++,
      close: () => undefined,
    },
    keys: new StoreKeys('test', 'k'),
    id: 'me',
    beforeFollowing: async (send) => void (await send(['TIME'], 'key')),
    onEvent: assert.fail,
    onFault: assert.fail,
  })
  t.after(() => events.close())
  return reading.promise.then(() => {
    t.mock.timers.tick(3000)
    assert.equal(resets, 1)
  })
})

describe('events', { skip: NO_REDIS }, () => {
  it('come from the new master once the address leads there, though the old master lives on as a replica', async (t) => {
    const [old, heir] = [await startRedis(), await startRedis()]
    const address = await startAddress(old)
    const keys = new StoreKeys('test', 'k')
    const heard: string[] = []
    const events = new StoreEvents({
      connection: new StoreConnection(storeAt('single', [address.port])),
      keys,
      id: 'me',
      beforeFollowing: async () => undefined,
      onEvent: (_kind, hash) => heard.push(hash),
      onFault: () => undefined,
    })
    t.after(async () => {
      events.close()
      address.stop()
      for (const server of [old, heir]) await server.stop()
    })
    await until(() => events.isCurrent, 'the events')
    await old.command('REPLICAOF', '127.0.0.1', '1')
    await until(() => address.connections >= 2, 'the second connection')
    address.moveTo(heir)
    await until(async () => {
      await heir.command('XADD', streamKey(keys), '*', 'kind', 'ended', 'hash', 'h', 'origin', 'o')
      return heard.includes('h')
    }, 'the event')
  })

  it('are followed at a master that takes no writes, because it lacks replicas', async (t) => {
    const server = await startRedis()
    await server.command('CONFIG', 'SET', 'min-replicas-to-write', '1')
    const faults: string[] = []
    const events = new StoreEvents({
      connection: new StoreConnection(storeAt('single', [server.port])),
      keys: new StoreKeys('test', 'k'),
      id: 'me',
      beforeFollowing: async () => undefined,
      onEvent: () => undefined,
      onFault: (cause) => faults.push(cause),
    })
    t.after(async () => {
      events.close()
      await server.stop()
    })
    await until(() => events.isCurrent, 'the events')
    assert.deepEqual(faults, [])
  })

  it('begin anew when a gateway falls so far behind that the stream lost some', async () => {
    const server = await startRedis()
    const connection = new StoreConnection(storeAt('single', [server.port]))
    let held: PromiseWithResolvers<void> | undefined
    let begun = 0
    const faults: string[] = []
    const keys = new StoreKeys('test', 'k')
    const events = new StoreEvents({
      connection: {
        get isReady() {
          return connection.isReady
        },
        send: async (args, key) => {
          if (args[0] === 'XREAD') await held?.promise
          return connection.send(args, key)
        },
        onReady: (listener) => connection.onReady(listener),
        // Does nothing while the test holds a reply back.
        reset: (cause) => held === undefined && connection.reset(cause),
        close: () => connection.close(),
      },
      keys,
      id: 'me',
      beforeFollowing: async () => void begun++,
      onEvent: () => undefined,
      onFault: (cause) => faults.push(cause),
    })
    const add = (count: number) =>
      server.command(
        'EVAL',
        `for i = 1, ${count} do redis.call('XADD', KEYS[1], '*', 'kind', 'ended', 'hash', 'h' .. i, 'origin', 'o') end return 1`,
        '1',
        streamKey(keys),
      )
    try {
      await until(() => events.isCurrent, 'the events')
      await add(1)
      held = Promise.withResolvers()
      await add(2500)
      held.resolve()
      held = undefined
      await add(1)
      assert.equal(begun, 1, 'nothing is missing')
      held = Promise.withResolvers()
      await add(1)
      await add(2500)
      await server.command('XTRIM', streamKey(keys), 'MAXLEN', '1200')
      held.resolve()
      held = undefined
      await until(() => begun === 2 && events.isCurrent, 'the second beginning')
      assert.match(faults.join(), /so far behind/)
    } finally {
      events.close()
      await server.stop()
    }
  })
})
