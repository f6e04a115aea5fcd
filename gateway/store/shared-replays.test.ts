import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { digestOf, type ReplayFault, ReplayMemory } from '../auth/replay.ts'
import {
  NO_REDIS,
  PATIENT_MS,
  type RedisServer,
  SILENT,
  startRedis,
  storeAt,
  until,
} from './redis-server.test-support.ts'
import { SharedReplays } from './shared-replays.ts'
import { SharedStore } from './shared-store.ts'
import type { StoreCall } from './store-breaker.ts'
import { StoreKeys } from './store-keys.ts'
import { StoreMember } from './store-member.ts'

const NOW_MS = 1_800_000_000_000

function guarded(onStoreFailure: 'deny' | 'local' = 'deny') {
  const sent: StoreCall[] = []
  const local: { fault: ReplayFault | undefined } = { fault: undefined }
  /** Messages about which the gateway's own memory was asked. */
  const asked: string[] = []
  const remembered: [digest: string, atMs: number][] = []
  const replays = new SharedReplays({
    memory: {
      take: (key) => {
        asked.push(key)
        return local.fault
      },
      begin: () => local.fault,
      end: (keys, _, isTaken) => void (isTaken && asked.push(...keys)),
      maintain: () => undefined,
      entries: () => remembered,
    },
    clock: () => NOW_MS,
    breaker: { send: (call) => void sent.push(call) },
    keys: new StoreKeys('test', 'k'),
    ...{ space: 'x', lifetimeMs: 60_000, onStoreFailure, id: 'g' },
  })
  /** Values that the last command takes back. */
  const values = () => sent.at(-1)?.args.slice(4)
  return { replays, sent, local, asked, remembered, values }
}

async function join({ port }: RedisServer, gatewayId: string, onStoreFailure: 'deny' | 'local') {
  const member = new StoreMember({
    settings: storeAt('single', [port]),
    onStoreFailure: { deadlineMs: PATIENT_MS, replays: onStoreFailure, revocations: 'local' },
    ...{ gatewayId, clock: Date.now, ownSessions: () => [] },
    ...{ ...SILENT, onFailure: () => undefined },
  })
  await until(() => member.isComplete, 'the store')
  const memory = new ReplayMemory({ lifetimeMs: 60_000, clock: Date.now })
  return { member, replays: member.replays('webhook', memory, 60_000) }
}

describe('messages that may have been left in the store', () => {
  it('are taken back by the value of every attempt, before the next attempt', async () => {
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
    replays.maintainStore()
    assert.deepEqual(values(), ['g.1', 'g.2'])
  })

  it('are taken back several times, because a lost connection may deliver its command late', async () => {
    const { replays, sent } = guarded()
    const taken = replays.take('m', 'sender')
    sent[0]?.done(undefined)
    await taken
    for (let i = 0; i < 10; i++) {
      const before = sent.length
      replays.maintainStore()
      for (const call of sent.slice(before)) call.done(i === 0 ? undefined : 0)
    }
    assert.equal(sent.length, 1 + 1 + 3)
  })

  it('are taken back some at a time, all in turn, and at most 10,000', async () => {
    const { replays, sent } = guarded()
    for (let i = 0; i < 10_100; i++) {
      const taken = replays.take(`${i}`, 'sender')
      sent[i]?.done(undefined)
      await taken
    }
    const keys = new Set<string>()
    for (let i = 0; i < 60; i++) {
      sent.length = 0
      replays.maintainStore()
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
      replays.maintainStore()
      assert.equal(sent.length, commands, `${fault}`)
    }
  })
})

describe('messages that the store has not seen', () => {
  it('are still refused when this gateway has accepted them, for example after the store lost its data', async () => {
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
      replays.maintainStore()
      assert.deepEqual(sent, [])
    }
  })
})

describe('messages that this gateway has accepted', () => {
  const SECOND_MS = 1000
  const turn = () => new Promise((resolve) => setImmediate(resolve))

  it('are written back into a store that lacks them, unless they have expired', async () => {
    const { replays, sent, remembered } = guarded()
    const taken = replays.take('m', 'sender')
    const key = sent.shift()?.args[1]
    remembered.push([digestOf('expired', 's'), NOW_MS - 60_000])
    remembered.push([digestOf('m', 'sender'), NOW_MS - 45_000], [digestOf('other', 's'), NOW_MS])
    replays.writeBack(Number.NEGATIVE_INFINITY)
    await turn()
    const [first, second, ...rest] = sent.map(({ args }) => args)
    assert.deepEqual(first, ['SET', key, 'g.0', 'PX', '60000'])
    assert.deepEqual([second?.slice(2), rest], [['g.0', 'PX', '60000'], []])
    for (const call of sent.splice(0)) call.done('OK')
    for (let i = 0; i < 3; i++) await turn()
    replays.maintainStore()
    assert.deepEqual(sent, [], 'once')
    void taken
  })

  it('are written back over the value of a refused attempt of another gateway, which takes back only that value', async () => {
    const [one, other] = [guarded('local'), guarded('local')]
    other.local.fault = 'unwritable'
    const refused = other.replays.take('m', 'sender')
    const left = other.sent.shift()
    left?.done(undefined)
    assert.equal(await refused, 'unwritable')
    one.remembered.push([digestOf('m', 'sender'), NOW_MS])
    one.replays.writeBack(Number.NEGATIVE_INFINITY)
    const [name, key, value, ...options] = one.sent[0]?.args ?? []
    assert.deepEqual([name, key, options], ['SET', left?.key, ['PX', '60000']])
    other.replays.maintainStore()
    assert.deepEqual(other.values(), [left?.args[2]])
    assert.notEqual(value, left?.args[2])
  })

  it('are written back some at a time, and again from the first if the store goes away meanwhile', async () => {
    const { replays, sent, remembered } = guarded()
    for (let i = 0; i < 450; i++) remembered.push([digestOf(`${i}`, 's'), NOW_MS])
    replays.writeBack(Number.NEGATIVE_INFINITY)
    const batches: number[] = []
    const settle = async (reply: string | undefined) => {
      for (let i = 0; i < 3; i++) await turn()
      batches.push(sent.length)
      for (const call of sent.splice(0)) call.done(reply)
    }
    await settle('OK')
    await settle(undefined)
    await settle('OK')
    replays.maintainStore()
    for (let i = 0; i < 4; i++) await settle('OK')
    assert.deepEqual(batches, [200, 200, 0, 200, 200, 50, 0])
  })

  it('are written back when the store comes back, from the time it went away', async () => {
    const { replays, sent, remembered } = guarded('local')
    for (let s = 50; s >= 0; s -= 10) remembered.push([digestOf(`${s}`, 's'), NOW_MS - s * SECOND_MS])
    replays.writeBack(NOW_MS - 25 * SECOND_MS)
    for (let i = 0; i < 3; i++) await turn()
    const keys = new StoreKeys('test', 'k')
    assert.deepEqual(
      sent.map(({ key }) => key),
      ['20', '10', '0'].map((message) => keys.keyOfOnce('x', digestOf(message, 's'))),
    )
  })
})

it('messages that wait while the store goes away are decided by the configuration of that time', async () => {
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

describe('a message under way to the service', () => {
  const TWO = ['content', 'id']
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  async function begun(one: ReturnType<typeof guarded>, ...replies: (string | null | undefined)[]) {
    const fault = one.replays.begin(TWO, 'sender')
    for (const reply of replies) {
      one.sent.at(-1)?.done(reply)
      await turn()
    }
    return await fault
  }
  const names = ({ sent }: ReturnType<typeof guarded>) => sent.map(({ args: [name] }) => name)

  it('is taken in the store one key after the other, and refused while the store is away', async () => {
    for (const [replies, fault] of [
      [['OK', 'OK'], undefined],
      [[null], 'replayed'],
      [['OK', null], 'replayed'],
      [[undefined], 'away'],
      [['OK', undefined], 'away'],
    ] as const) {
      const one = guarded()
      assert.equal(await begun(one, ...replies), fault)
      assert.equal(one.sent.length, replies.length)
      for (const { args } of one.sent)
        assert.deepEqual([args[0], ...args.slice(3)], ['SET', 'NX', 'PX', '30000'])
    }
    const one = guarded('local')
    assert.equal(await begun(one, undefined, undefined), undefined)
    one.local.fault = 'unwritable'
    assert.equal(await begun(one, undefined), 'unwritable')
    one.local.fault = 'replayed'
    assert.equal(await begun(one), 'replayed')
  })

  it('stays taken by the gateway that has it, also in a store that has lost its data', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const one = guarded()
    await begun(one, 'OK', 'OK')
    const values = one.sent.map(({ args }) => args[2])
    for (let i = 0; i < 2; i++) {
      one.sent.length = 0
      t.mock.timers.tick(10_000)
      assert.deepEqual(
        one.sent.map(({ args }) => args.slice(4)),
        values.map((value) => [value, '30000']),
      )
    }
    one.replays.end(TWO, 'sender', false)
    one.sent.length = 0
    t.mock.timers.tick(60_000)
    assert.deepEqual(one.sent, [])
  })

  it('is given back when the service did not take it, later if the store is away', async () => {
    const one = guarded()
    await begun(one, 'OK', null)
    one.replays.end(TWO, 'sender', false)
    assert.deepEqual(names(one), ['SET', 'SET', 'EVAL'])
    assert.deepEqual(one.sent[2]?.args.slice(3), one.sent[0]?.args.slice(1, 3))
    one.sent[2]?.done(undefined)
    await turn()
    one.replays.maintainStore()
    assert.deepEqual(one.sent[3]?.args, one.sent[2]?.args)
  })

  it('is kept here and in the store, and written back when the store did not get it', async () => {
    const one = guarded()
    await begun(one, 'OK', 'OK')
    one.replays.end(['content'], 'sender', true)
    assert.deepEqual(one.asked, ['content'])
    assert.deepEqual(one.sent[2]?.args.slice(1), [one.sent[0]?.key, 'g.0', 'PX', '60000'])
    one.sent[2]?.done(undefined)
    await turn()
    one.remembered.push([digestOf('content', 'sender'), NOW_MS])
    one.replays.maintainStore()
    assert.deepEqual(one.sent[3]?.args, one.sent[2]?.args)
  })
})

describe('messages in a real store', { skip: NO_REDIS }, () => {
  it('pass after a freeze of the store, and are never taken from the gateway that accepted them', async () => {
    const server = await startRedis()
    const silent = () => undefined
    const stores: SharedStore[] = []
    const open = async (id: string) => {
      const store = new SharedStore(storeAt('single', [server.port]), {
        ...SILENT,
      })
      stores.push(store)
      const { breaker, keys } = store
      await until(() => !breaker.isOpen, 'the store')
      const memory = { take: silent, begin: silent, end: silent, maintain: silent, entries: () => [] }
      const replays = new SharedReplays({
        ...{
          memory,
          clock: Date.now,
          breaker,
          keys,
          space: 'x',
          lifetimeMs: 60_000,
          onStoreFailure: 'deny',
          id,
        },
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
      for (let i = 0; i < 5; i++) one.replays.maintainStore()
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

  it('are under way at one gateway, until it gives them back or its lease ends', async () => {
    const server = await startRedis()
    const members: StoreMember[] = []
    const open = async (id: string) => {
      const { member, replays } = await join(server, id, 'deny')
      members.push(member)
      return replays
    }
    try {
      const [one, other] = [await open('one'), await open('other')]
      const races = Array.from({ length: 50 }, (_, i) => [`content ${i}`, `id ${i}`])
      for (const keys of races) {
        const faults = await Promise.all([one.begin(keys, 's'), other.begin(keys, 's')])
        assert.deepEqual(faults.toSorted(), ['replayed', undefined])
        const [first, second] = faults[0] === undefined ? [one, other] : [other, one]
        second.end(keys, 's', false)
        assert.equal(await second.begin(keys, 's'), 'replayed')
        first.end(keys, 's', false)
        await until(async () => (await second.begin(keys, 's')) === undefined, 'the next attempt')
      }
      const held = (await server.command('KEYS', '*:{*}')) as string[]
      for (const key of held) {
        const leftMs = Number(await server.command('PTTL', key))
        assert.ok(leftMs > 0 && leftMs <= 30_000, `${leftMs}`)
      }
    } finally {
      for (const member of members) member.close()
      await server.stop()
    }
  })

  it('are refused by the neighbours too after the store has lost its data, or was away', async () => {
    const server = await startRedis()
    const members: StoreMember[] = []
    const open = async (id: string) => {
      const joined = await join(server, id, 'local')
      members.push(joined.member)
      return joined
    }
    const messages = (prefix: string) => Array.from({ length: 15 }, (_, i) => `${prefix}-${i}`)
    const takeAll = (replays: SharedReplays, prefix: string) =>
      Promise.all(messages(prefix).map((message) => replays.take(message, 'sender')))
    const all = (fault: ReplayFault | undefined) => messages('').map(() => fault)
    /** How many messages are in the store, once every gateway knows that the store is there. */
    const stored = async () => {
      for (const member of members) member.maintain()
      const names = (await server.command('KEYS', '*').catch(() => [])) as string[]
      return members.some(({ isAway }) => isAway)
        ? 0
        : names.filter((name) => /:\{[\w-]{22}\}$/.test(name)).length
    }
    try {
      const [one, other] = [await open('one'), await open('other')]
      assert.deepEqual(await takeAll(one.replays, 'before'), all(undefined))
      assert.equal(await stored(), 15)
      await server.command('FLUSHALL')
      await until(async () => (await stored()) === 15, 'what was written back')
      assert.deepEqual(await takeAll(other.replays, 'before'), all('replayed'))

      await server.kill()
      await until(() => {
        for (const member of members) member.maintain()
        return members.every(({ isAway }) => isAway)
      }, 'the outage')
      assert.deepEqual(await takeAll(one.replays, 'meanwhile'), all(undefined))
      await server.restart()
      await until(async () => (await stored()) === 30, 'what was accepted meanwhile')
      assert.deepEqual(await takeAll(other.replays, 'meanwhile'), all('replayed'))
      assert.deepEqual(await takeAll(other.replays, 'before'), all('replayed'))
    } finally {
      for (const member of members) member.close()
      await server.stop()
    }
  })
})
