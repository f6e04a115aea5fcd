import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ReplayFault } from '../auth/replay.ts'
import { NO_REDIS, startRedis, storeAt, until } from './redis-server.test-support.ts'
import { SharedReplays } from './shared-replays.ts'
import { SharedStore } from './shared-store.ts'
import type { StoreCall } from './store-breaker.ts'
import { StoreKeys } from './store-keys.ts'

function guarded(onStoreFailure: 'deny' | 'local' = 'deny') {
  const sent: StoreCall[] = []
  const local: { fault: ReplayFault | undefined } = { fault: undefined }
  /** Messages that the gateway's own memory was asked for. */
  const asked: string[] = []
  const replays = new SharedReplays({
    memory: {
      take: (key) => {
        asked.push(key)
        return local.fault
      },
      maintain: () => undefined,
    },
    breaker: { send: (call) => void sent.push(call) },
    keys: new StoreKeys('test', 'k'),
    ...{ space: 'x', lifetimeMs: 60_000, onStoreFailure, id: 'g' },
  })
  /** Values that the last command takes back. */
  const values = () => sent.at(-1)?.args.slice(4)
  return { replays, sent, local, asked, values }
}

describe('messages that may have been left in the store', () => {
  it('are taken back by the value of every attempt, before the next one', async () => {
    const { replays, sent, values } = guarded()
    const first = replays.take('m', 'sender')
    sent[0]?.done(undefined)
    assert.equal(await first, 'away')
    const second = replays.take('m', 'sender')
    assert.deepEqual(
      sent.map(({ args: [name] }) => name),
      ['SET', 'EVAL', 'SET'],
    )
    sent[1]?.done(undefined)
    sent[2]?.done(undefined)
    assert.equal(await second, 'away')
    replays.takeBack()
    assert.deepEqual(values(), ['g.1', 'g.2'])
  })

  it('are taken back several times, because a lost connection may deliver its command late', async () => {
    const { replays, sent } = guarded()
    const taken = replays.take('m', 'sender')
    sent[0]?.done(undefined)
    await taken
    for (let i = 0; i < 10; i++) {
      const before = sent.length
      replays.takeBack()
      for (const call of sent.slice(before)) call.done(i === 0 ? undefined : 0)
    }
    assert.equal(sent.length, 1 + 1 + 3)
  })

  it('are taken back some at a time, all in turn, and at most 10,000', () => {
    const { replays, sent } = guarded()
    for (let i = 0; i < 10_100; i++) {
      void replays.take(`${i}`, 'sender')
      sent[i]?.done(undefined)
    }
    const keys = new Set<string>()
    for (let i = 0; i < 60; i++) {
      sent.length = 0
      replays.takeBack()
      assert.equal(sent.length, 200)
      for (const { key } of sent) keys.add(key)
    }
    assert.equal(keys.size, 10_000)
  })

  it('are taken back when this gateway cannot remember them either, but not when it accepted them', async () => {
    for (const [fault, commands] of [
      [undefined, 0],
      ['replayed', 0],
      ['unwritable', 1],
      ['full', 1],
    ] as const) {
      const { replays, sent, local } = guarded('local')
      local.fault = fault
      const taken = replays.take('m', 'sender')
      sent.shift()?.done(undefined)
      assert.equal(await taken, fault)
      replays.takeBack()
      assert.equal(sent.length, commands, `${fault}`)
    }
  })
})

describe('messages that the store has not seen', () => {
  it('are still refused when this gateway has accepted them, as after the store has lost its data', async () => {
    for (const [fault, told] of [
      [undefined, undefined],
      ['replayed', 'replayed'],
      // What memory cannot hold or write is in the store.
      ['full', undefined],
      ['unwritable', undefined],
    ] as const) {
      const { replays, sent, local, asked } = guarded()
      local.fault = fault
      const taken = replays.take('m', 'sender')
      sent.shift()?.done('OK')
      assert.equal(await taken, told, `${fault}`)
      assert.deepEqual(asked, ['m'])
      replays.takeBack()
      assert.deepEqual(sent, [])
    }
  })
})

it('a message that waits while the store goes away is decided by what is configured then', async () => {
  const { replays, sent } = guarded('deny')
  const first = replays.take('a', 'sender')
  replays.change('local')
  sent[0]?.done(undefined)
  assert.equal(await first, undefined)
  replays.change('deny')
  const second = replays.take('b', 'sender')
  sent.at(-1)?.done(undefined)
  assert.equal(await second, 'away')
})

describe('messages in a real store', { skip: NO_REDIS }, () => {
  it('pass after a freeze of the store, and are never taken from the gateway that accepted them', async () => {
    const server = await startRedis()
    const silent = () => undefined
    const stores: SharedStore[] = []
    const open = async (id: string) => {
      const store = new SharedStore(storeAt('single', [server.port]), {
        ...{ onAway: silent, onBack: silent, onFault: silent },
      })
      stores.push(store)
      const { breaker, keys } = store
      await until(() => !breaker.isOpen, 'the store')
      const memory = { take: silent, maintain: silent }
      const replays = new SharedReplays({
        ...{ memory, breaker, keys, space: 'x', lifetimeMs: 60_000, onStoreFailure: 'deny', id },
      })
      return { breaker, replays }
    }
    try {
      const [one, other] = [await open('one'), await open('other')]
      server.signal('SIGSTOP')
      assert.equal(await one.replays.take('lost', 'sender'), 'away')
      assert.equal(await one.replays.take('accepted elsewhere', 'sender'), 'away')
      server.signal('SIGCONT')
      await until(() => !one.breaker.isOpen && !other.breaker.isOpen, 'the store')
      await until(async () => (await one.replays.take('lost', 'sender')) === undefined, 'the next attempt')
      await until(
        async () => (await other.replays.take('accepted elsewhere', 'sender')) === undefined,
        'the other one',
      )
      for (let i = 0; i < 5; i++) one.replays.takeBack()
      // On a busy machine the server can be late.
      const decided = async ({ replays }: typeof one, message: string) => {
        let fault: ReplayFault | undefined = 'away'
        await until(async () => {
          fault = await replays.take(message, 'sender')
          return fault !== 'away'
        }, message)
        return fault
      }
      assert.equal(await decided(one, 'lost'), 'replayed')
      assert.equal(await decided(other, 'lost'), 'replayed')
      assert.equal(await decided(one, 'accepted elsewhere'), 'replayed')
      assert.equal(await decided(other, 'accepted elsewhere'), 'replayed')
    } finally {
      for (const store of stores) store.close()
      await server.stop()
    }
  })
})
