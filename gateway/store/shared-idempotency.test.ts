import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, beforeEach, describe, it } from 'node:test'
import { createClient } from '@redis/client'
import fc from 'fast-check'
import type { StoreSettings } from '../config/rules/store-address.ts'
import { LONGER } from '../e2e/long-runs.ts'
import { type KeySecrets, secretsOf } from '../idempotency/key-secret.ts'
import { RESPONSE, request, SECRETS } from '../idempotency/key-table.test-support.ts'
import {
  type Begun,
  callerOf,
  type Finish,
  type KeyedRequest,
  type KeyTable,
} from '../idempotency/key-table.ts'
import type { StoreReply } from './connection/store-link.ts'
import { BEGIN_SCRIPT, FINISH_SCRIPT } from './idempotency-scripts.ts'
import { leastRights } from './least-rights.test-support.ts'
import {
  NO_REDIS,
  PATIENT_MS,
  type RedisServer,
  SILENT,
  startCluster,
  startRedis,
  storeAt,
  until,
} from './redis-server.test-support.ts'
import { findSharedKeys, SharedIdempotency } from './shared-idempotency.ts'
import { SharedStore } from './shared-store.ts'
import { REAL_TIMERS, type StoreCall } from './store-breaker.ts'
import { StoreKeys } from './store-keys.ts'
import { READ_CLOCK } from './take-script.ts'

/** SHA of each script with the clock of the test, by the SHA of the original. */
const CLOCKED = new Map<string, string>()
const LEASE_MS = 30_000
const KEEP_MS = 3 * 3_600_000
const LARGEST_BYTES = 65_536

type Line = 'up' | 'lost' | 'unheard' | 'late'
type Held = Extract<Begun<unknown>, { outcome: 'begun' }>['held']

describe('idempotency keys in the store', { skip: NO_REDIS }, () => {
  let server: RedisServer
  let client: ReturnType<typeof createClient>
  const time = { nowMs: 0 }
  const underWay: Promise<unknown>[] = []
  before(async () => {
    server = await startRedis()
    client = createClient({ RESP: 2, socket: { host: '127.0.0.1', port: server.port } })
    await client.connect()
    for (const { text, sha } of [BEGIN_SCRIPT, FINISH_SCRIPT]) {
      const clocked = text.replace(READ_CLOCK, 'local time = { ARGV[#ARGV - 1], ARGV[#ARGV] }')
      CLOCKED.set(sha, String(await client.sendCommand(['SCRIPT', 'LOAD', clocked])))
    }
  })
  after(async () => {
    client.destroy()
    await server.stop()
  })
  beforeEach(clear)

  async function clear(): Promise<void> {
    time.nowMs = 1_900_000_000_000
    await client.sendCommand(['FLUSHALL'])
  }

  /** Waits for all that the store was asked. */
  async function settled(): Promise<void> {
    while (underWay.length > 0) await Promise.all(underWay.splice(0))
  }

  async function carryOut([, sha = '', ...operands]: readonly string[]): Promise<StoreReply> {
    const clock = [String(Math.floor(time.nowMs / 1000)), String((time.nowMs % 1000) * 1000)]
    return (await client.sendCommand([
      'EVALSHA',
      CLOCKED.get(sha) ?? '',
      ...operands,
      ...clock,
    ])) as StoreReply
  }

  let gateways = 0

  /** A gateway whose line to the store may lose commands or replies, or deliver commands late. */
  function open(more: { secrets?: KeySecrets; local?: KeyTable } = {}) {
    const late: (() => Promise<unknown>)[] = []
    const faults: string[] = []
    let tick: (() => void) | undefined
    const gateway = {
      line: 'up' as Line,
      isOpen: false,
      isShared: true,
      faults,
      send: ({ args, fits, done }: StoreCall) => {
        if (gateway.isOpen) return done(undefined)
        const { line } = gateway
        if (line === 'late') late.push(() => carryOut(args))
        const reply = line === 'up' || line === 'unheard' ? carryOut(args) : Promise.resolve(undefined)
        underWay.push(
          reply.then((known) => {
            assert.ok(known === undefined || fits?.(known) !== false, JSON.stringify(known))
            done(line === 'up' ? known : undefined)
          }),
        )
      },
      carryOutLate: () => {
        for (const run of late.splice(0)) underWay.push(run())
      },
      tick: () => tick?.(),
      /** What becomes of a request at once. */
      begin: async (key: string, change: Partial<KeyedRequest> = {}): Promise<Begun<unknown>> => {
        const { promise, resolve } = Promise.withResolvers<Begun<unknown>>()
        keeper.begin(request(key, { keepMs: KEEP_MS, ...change }), resolve)
        await settled()
        return promise
      },
      outcome: async (key: string, change: Partial<KeyedRequest> = {}) =>
        (await gateway.begin(key, change)).outcome,
      held: async (key: string, change: Partial<KeyedRequest> = {}): Promise<Held> => {
        const begun = await gateway.begin(key, change)
        assert.equal(begun.outcome, 'begun')
        return (begun as { held: Held }).held
      },
      /** @returns what `finish` calls back with; `waits` until then */
      finish: async (held: Held, finish: Finish): Promise<Error | undefined | 'waits'> => {
        let told: Error | undefined | 'waits' = 'waits'
        keeper.finish(held as never, finish, (error) => {
          told = error
        })
        await settled()
        return told
      },
      keeper: undefined as unknown as SharedIdempotency,
    }
    const keeper = new SharedIdempotency({
      breaker: gateway,
      keys: new StoreKeys('test', 'k'.repeat(32)),
      timers: {
        nowMs: () => time.nowMs,
        after: (_ms, run) => {
          tick = run
          return () => {
            tick = undefined
          }
        },
      },
      secrets: more.secrets ?? SECRETS,
      id: `gateway-${++gateways}`,
      isShared: () => gateway.isShared,
      local: () => more.local,
      onFault: (cause) => faults.push(cause),
    })
    gateway.keeper = keeper
    return gateway
  }

  it('begin once, and have the response at every gateway', async () => {
    const [one, other] = [open(), open()]
    const body = randomBytes(LARGEST_BYTES).toString('latin1')
    const held = await one.held('a')
    assert.equal(await other.outcome('a'), 'in_progress')
    assert.equal(await other.outcome('a', { content: ['else'] }), 'reused')
    assert.equal(await one.finish(held, { ...RESPONSE, body }), undefined)
    for (const gateway of [one, other]) {
      const done = await gateway.begin('a')
      assert.ok(done.outcome === 'done' && done.requestId === 'id-of-a')
      assert.deepEqual({ ...done.response, body: RESPONSE.body }, RESPONSE)
      assert.ok(done.response.body === body)
    }
    assert.equal(await other.outcome('a', { content: ['else'] }), 'reused')
    assert.equal(await other.outcome('a', { caller: callerOf('user-2') }), 'begun')
    assert.equal(await other.outcome('a', { row: '/else' }), 'begun')
  })

  it('keep only the status of a response that is too long', async () => {
    const [one, other] = [open(), open()]
    const response = { status: 201, fields: '', body: undefined }
    await one.finish(await one.held('a'), response)
    assert.deepEqual(await other.begin('a'), { outcome: 'done', requestId: 'id-of-a', response })
  })

  it('are free when the request was not sent, and unknown when it has no response', async () => {
    const [one, other] = [open(), open()]
    assert.equal(await one.finish(await one.held('a'), 'free'), undefined)
    const again = await other.held('a')
    assert.equal(await other.finish(again, 'unknown'), undefined)
    assert.deepEqual(await one.begin('a'), { outcome: 'unknown', requestId: 'id-of-a' })
    const resolving = await one.held('a', { resolves: true })
    assert.equal(await other.outcome('a'), 'in_progress')
    await one.finish(resolving, 'free')
    assert.equal(await other.outcome('a'), 'unknown', 'it was sent before')
  })

  it('are unknown when a gateway is silent for longer than its lease, and stay unknown once a client was told', async () => {
    const [one, other] = [open(), open()]
    const [a, b] = [await one.held('a'), await one.held('b')]
    time.nowMs += LEASE_MS - 1
    assert.equal(await other.outcome('a'), 'in_progress')
    time.nowMs += 1
    for (let told = 0; told < 2; told++)
      assert.deepEqual(await other.begin('a'), { outcome: 'unknown', requestId: 'id-of-a' })
    assert.match(String(await one.finish(a, RESPONSE)), /^Error: the store did not take/)
    assert.equal(await other.outcome('a'), 'unknown')
    assert.equal(await one.finish(b, RESPONSE), undefined)
    assert.equal(await other.outcome('b'), 'done')
  })

  it('are in progress for as long as the request takes', async () => {
    const [one, other] = [open(), open()]
    const held = await one.held('a')
    for (let seconds = 0; seconds < 600; seconds += 10) {
      time.nowMs += 10_000
      one.tick()
      await settled()
      assert.equal(await other.outcome('a'), 'in_progress')
    }
    assert.equal(await one.finish(held, RESPONSE), undefined)
  })

  it('are counted for each caller over all gateways, until they expire', async () => {
    const [one, other] = [open(), open()]
    const few = { maxKeys: 3, keepMs: 60_000 }
    const a = await one.held('a', few)
    const b = await other.held('b', few)
    await one.held('c', few)
    assert.equal(await other.outcome('d', few), 'too_many')
    assert.equal(await other.outcome('d', { ...few, caller: callerOf('user-2') }), 'begun')
    await one.finish(a, 'free')
    assert.equal(await other.outcome('d', few), 'begun')
    assert.equal(await one.outcome('e', few), 'too_many')
    assert.equal(await other.finish(b, RESPONSE), undefined)
    assert.equal(
      await one.outcome('b', few),
      'done',
      'a caller with as many keys as allowed still gets a kept response',
    )
    time.nowMs += 60_001
    assert.equal(await one.outcome('e', few), 'begun')
    assert.equal(await one.outcome('f', few), 'too_many')
  })

  it('expire with all that the store has of them', async () => {
    const one = open()
    await one.finish(await one.held('a', { keepMs: 60_000 }), RESPONSE)
    await one.held('b', { keepMs: 600_000 })
    const keys = (await client.sendCommand(['KEYS', '*'])) as unknown as string[]
    assert.equal(keys.length, 3)
    assert.equal(new Set(keys.map((key) => /^test:\{[\w-]{22}\}/.exec(key)?.[0])).size, 1, 'one slot')
    for (const key of keys) {
      const leftMs = Number(await client.sendCommand(['PTTL', key]))
      assert.ok(leftMs > 59_000 && leftMs <= 630_000, `${key}: ${leftMs}`)
    }
  })

  it('leave nothing in the store that can be read', async () => {
    const one = open()
    const change = { caller: callerOf('the-caller'), content: ['the-content'], requestId: 'the-request' }
    const response = { ...RESPONSE, body: 'the-response' }
    await one.finish(await one.held('the-key', change), response)
    await one.held('the-next', change)
    for (const key of (await client.sendCommand(['KEYS', '*'])) as unknown as string[]) {
      const value = key.endsWith(':keys')
        ? String(await client.sendCommand(['ZRANGE', key, '0', '-1']))
        : String(await client.sendCommand(['GET', key]))
      assert.doesNotMatch(`${key} ${value}`, /the-|\/transfers|201/)
    }
  })

  it('are refused at a gateway with another secret, and when others have changed the store', async () => {
    const [one, other] = [open(), open({ secrets: secretsOf(['another secret of 32 characters.']) })]
    await one.finish(await one.held('a'), RESPONSE)
    assert.equal(await other.outcome('a'), 'unavailable')
    assert.deepEqual(other.faults, ['another gateway has another "idempotencyKeyFile"'])
    await one.finish(await one.held('b'), { ...RESPONSE, status: 200 })
    const names = ((await client.sendCommand(['KEYS', '*'])) as unknown as string[]).filter(
      (name) => !name.endsWith(':keys'),
    )
    const [first, second] = await Promise.all(
      names.map(async (name) => String(await client.sendCommand(['GET', name]))),
    )
    await client.sendCommand(['SET', names[0] ?? '', second ?? ''])
    await client.sendCommand(['SET', names[1] ?? '', first ?? ''])
    assert.equal(await one.outcome('a'), 'unknown', 'no response of another key')
    assert.deepEqual(one.faults, ['a response in the store is damaged'])
    for (const name of names) await client.sendCommand(['SET', name, 'damaged'])
    assert.equal(await one.outcome('b'), 'unavailable')
  })

  it('are refused when the store answers as no script does', async () => {
    for (const reply of [[], ['sent'], ['constructor']]) {
      const gateway = open()
      gateway.send = ({ done }) => done(reply)
      assert.equal(await gateway.outcome('a'), 'unavailable')
    }
  })

  it('are found under an older secret, and answered with 503 when that secret is gone', async () => {
    const [old] = SECRETS
    const [changed] = secretsOf(['another secret of 32 characters.'])
    const [one, other, late] = [open(), open({ secrets: [changed, old] }), open({ secrets: [changed] })]
    await one.finish(await one.held('done'), RESPONSE)
    await one.finish(await one.held('unknown'), 'unknown')
    const slow = await one.held('slow')
    const keys = ['done', 'unknown', 'slow']
    for (const [at, outcome] of ['done', 'unknown', 'in_progress'].entries()) {
      const key = keys[at] ?? ''
      assert.equal(await other.outcome(key), outcome)
      assert.equal(await other.outcome(key, { content: ['else'] }), 'reused')
      assert.equal(await late.outcome(key), 'unavailable')
    }
    one.keeper.rekey([changed, old])
    await one.finish(slow, RESPONSE)
    await other.finish(await other.held('unknown', { resolves: true }), { ...RESPONSE, status: 200 })
    await one.finish(await one.held('new'), RESPONSE)
    for (const [gateway, key] of [
      [one, 'slow'],
      [one, 'unknown'],
      [other, 'new'],
      [late, 'new'],
    ] as const)
      assert.equal(await gateway.outcome(key), 'done')
    assert.equal(await late.outcome('slow'), 'unavailable')
    assert.deepEqual([one.faults, other.faults, late.faults.length], [[], [], 4])
  })

  describe('as a command finds them', () => {
    const NAMES = ['done', 'short', 'unknown', 'free', 'slow', 'dead', 'again', 'damaged', 'never']
    const SECOND = 1000
    const mark = `${new StoreKeys('test', 'k'.repeat(32)).hashOf('mark')}.of-a-gateway`
    let settings: StoreSettings
    const dump = async () => {
      const all = ((await client.sendCommand(['KEYS', '*'])) as unknown as string[]).sort()
      const seen = (name: string) => ['DUMP', 'EXPIRETIME'].map((word) => client.sendCommand([word, name]))
      return Promise.all(all.flatMap(seen))
    }
    const names = () =>
      client.sendCommand(['KEYS', `test:{*}:${'?'.repeat(22)}`]) as unknown as Promise<string[]>
    const find = async (secrets = SECRETS, more: Partial<StoreSettings> = {}) => {
      const before = await dump()
      const asked = NAMES.map((name) => request(name))
      const found = await findSharedKeys({ ...settings, ...more }, secrets, asked)
      assert.deepEqual(await dump(), before, 'it writes')
      return new Map(NAMES.map((name, at) => [name, found[at]]))
    }
    beforeEach(async () => {
      settings = storeAt('single', [server.port])
      await client.sendCommand(['SET', 'test:key-mark', mark])
      // The command goes by the clock of the server.
      time.nowMs = Date.now()
    })

    it('have the states that gateways see, and do not change', async () => {
      const [one, other] = [open(), open()]
      time.nowMs -= 60 * SECOND
      await one.held('dead')
      time.nowMs += 60 * SECOND
      await one.finish(await one.held('done'), RESPONSE)
      await one.finish(await one.held('short'), { status: 201, fields: '', body: undefined })
      await one.finish(await one.held('unknown'), 'unknown')
      await one.finish(await one.held('free'), 'free')
      await one.held('slow')
      await one.finish(await one.held('again'), 'unknown')
      await one.held('again', { resolves: true, requestId: 'id-of-the-next' })
      const found = await find()
      const summary = NAMES.map((name) => {
        const { state, requestId, response } = found.get(name) ?? {}
        return [name, state, requestId, response?.status, response?.body]
      })
      assert.deepEqual(summary, [
        ['done', 'done', 'id-of-done', 201, RESPONSE.body],
        ['short', 'done', 'id-of-short', 201, undefined],
        ['unknown', 'unknown', 'id-of-unknown', undefined, undefined],
        ['free', undefined, undefined, undefined, undefined],
        ['slow', 'begun', 'id-of-slow', undefined, undefined],
        ['dead', 'unknown', 'id-of-dead', undefined, undefined],
        ['again', 'begun', 'id-of-the-next', undefined, undefined],
        ['damaged', undefined, undefined, undefined, undefined],
        ['never', undefined, undefined, undefined, undefined],
      ])
      const { sinceMs, untilMs = 0 } = found.get('done') ?? {}
      assert.equal(sinceMs, time.nowMs)
      assert.ok(Math.abs(untilMs - time.nowMs - KEEP_MS) < 30 * SECOND)
      assert.equal(found.get('dead')?.sinceMs, time.nowMs - 30 * SECOND)
      assert.equal(found.get('slow')?.sinceMs, undefined)
      assert.equal(await other.outcome('dead'), 'unknown')
      assert.equal((await find()).get('dead')?.requestId, 'id-of-dead', 'told, and still named')
    })

    it('are read under an older secret, and name a secret that is missing', async () => {
      const [old] = SECRETS
      const [next] = secretsOf(['another secret of 32 characters.'])
      const [one, other] = [open(), open({ secrets: [next, old] })]
      await one.finish(await one.held('done'), RESPONSE)
      await other.finish(await other.held('unknown'), 'unknown')
      const lacks = 'under a line that "idempotencyKeyFile" does not have'
      const states = async (secrets: KeySecrets) => {
        const found = await find(secrets)
        return ['done', 'unknown'].map((name) => [found.get(name)?.state, found.get(name)?.requestId])
      }
      assert.deepEqual(await states([next, old]), [
        ['done', 'id-of-done'],
        ['unknown', 'id-of-unknown'],
      ])
      assert.deepEqual(await states([next]), [
        [`done, ${lacks}`, undefined],
        ['unknown', 'id-of-unknown'],
      ])
      assert.deepEqual(await states(SECRETS), [
        ['done', 'id-of-done'],
        [`unknown, ${lacks}`, undefined],
      ])
    })

    it('are damaged when nothing can be read, and never have the response of another key', async () => {
      const one = open()
      await one.finish(await one.held('other'), { ...RESPONSE, status: 200 })
      const [other = ''] = await names()
      await one.finish(await one.held('done'), RESPONSE)
      const [key = ''] = (await names()).filter((name) => name !== other)
      const value = String(await client.sendCommand(['GET', key]))
      const sealed = String(await client.sendCommand(['GET', other]))
      await one.held('slow')
      const [slow = ''] = (await names()).filter((name) => name !== other && name !== key)
      const begun = String(await client.sendCommand(['GET', slow]))
      await client.sendCommand(['SET', slow, begun.replace('begun', 'done')])
      assert.equal((await find()).get('slow')?.state, 'damaged, in the shared store')
      assert.equal(await one.outcome('slow'), 'unknown', 'there is no response to give')
      for (const bad of ['rubbish', '', value.slice(0, -5), value.replace(/ \S+$/, ' '), sealed]) {
        await client.sendCommand(['SET', key, bad])
        assert.equal((await find()).get('done')?.state, 'damaged, in the shared store', bad)
      }
    })

    it('need the key of the store, and only the rights of a gateway', async () => {
      const one = open()
      await one.finish(await one.held('done'), RESPONSE)
      const state = async (more: Partial<StoreSettings>) => (await find(SECRETS, more)).get('done')?.state
      await assert.rejects(state({ hashKey: 'l'.repeat(32) }), /gateways have another GATEWAY_STORE_KEY_FILE/)
      await assert.rejects(state({ hashKey: undefined }), /no gateway has left its key in the store/)
      await client.sendCommand(['SET', 'test:hash-key', 'k'.repeat(32)])
      await assert.rejects(
        state({ hashKey: undefined }),
        /gateways have also used this store with a GATEWAY_STORE_KEY_FILE: set that variable, or remove test:key-mark/,
      )
      await client.sendCommand(['DEL', 'test:key-mark'])
      assert.equal(await state({ hashKey: undefined }), 'done')
      await client.sendCommand(['SET', 'test:key-mark', mark])
      await client.sendCommand(['ACL', 'SETUSER', ...leastRights('a-password'), '~test:*'])
      const seen = (await find(SECRETS, { user: 'countersign', password: 'a-password' })).get('done')
      assert.deepEqual([seen?.untilMs, seen?.state, seen?.requestId], [undefined, 'done', 'id-of-done'])
      await assert.rejects(state({ user: 'countersign', password: 'wrong' }), /WRONGPASS/)
    })
  })

  it('are refused while the store is away, or kept by this gateway alone if the row says so', async () => {
    const asked: string[] = []
    const local = {
      begin: ({ key }: KeyedRequest, run: (begun: Begun) => void) => {
        asked.push(key)
        run({ outcome: 'begun', held: { entry: {}, requestId: '' } as never })
      },
      finish: (_held: unknown, finish: Finish, run: () => void) => {
        asked.push(String(finish))
        run()
      },
    } as unknown as KeyTable
    const one = open({ local })
    one.isOpen = true
    assert.equal(await one.outcome('a'), 'unavailable')
    assert.equal(await one.finish(await one.held('b', { onStoreFailure: 'local' }), 'unknown'), undefined)
    assert.deepEqual(asked, ['b', 'unknown'])
    one.isOpen = false
    one.isShared = false
    assert.equal(await one.outcome('a'), 'unavailable', 'others would not find it')
    assert.equal(await client.sendCommand(['DBSIZE']), 0)
  })

  for (const line of ['unheard', 'late'] as const)
    it(`are free again after a begin without a reply (${line}), once the store is back`, async () => {
      const [one, other] = [open(), open()]
      one.line = line
      assert.equal(await one.outcome('a'), 'unavailable')
      if (line === 'unheard') assert.equal(await other.outcome('a'), 'in_progress')
      one.line = 'up'
      one.tick()
      one.carryOutLate()
      await settled()
      one.tick()
      await settled()
      assert.equal(await other.outcome('a'), 'begun')
      for (let ticks = 0; ticks < 5; ticks++) one.tick()
      await settled()
      assert.equal(await other.outcome('a'), 'in_progress', 'a key is not taken back from others')
    })

  it('hold a response back until the store has it, and for 5 s at most', async () => {
    const [one, other] = [open(), open()]
    const [a, b] = [await one.held('a'), await one.held('b')]
    one.line = 'lost'
    const told: (Error | undefined)[] = []
    for (const held of [a, b]) one.keeper.finish(held as never, RESPONSE, (error) => told.push(error))
    await settled()
    one.tick()
    await settled()
    assert.equal(told.length, 0)
    time.nowMs += 4999
    one.tick()
    await settled()
    assert.equal(told.length, 0)
    time.nowMs += 1
    one.tick()
    await settled()
    assert.equal(told.length, 2)
    assert.ok(told.every((error) => error instanceof Error))
    assert.equal(await other.outcome('a'), 'in_progress')
    one.line = 'up'
    one.tick()
    await settled()
    assert.deepEqual([await other.outcome('a'), told.length], ['done', 2], 'its client asks again')
  })

  it('come back with their response to a store that lost a begun key', async () => {
    const [one, other] = [open(), open()]
    const held = await one.held('a')
    await client.sendCommand(['FLUSHALL'])
    assert.equal(await one.finish(held, RESPONSE), undefined)
    assert.equal(await other.outcome('a'), 'done')
  })

  it('begin once in a cluster, whose servers do not know the scripts yet', async () => {
    const { ports, stop } = await startCluster()
    const store = new SharedStore(storeAt('cluster', ports), SILENT, PATIENT_MS)
    try {
      await until(() => store.wasReached && !store.breaker.isOpen, 'the cluster')
      const { breaker, keys } = store
      const alone = { timers: REAL_TIMERS, isShared: () => true, local: () => undefined }
      const [one, other] = ['one', 'other'].map(
        (id) =>
          new SharedIdempotency({
            ...{ breaker, keys, ...alone, secrets: SECRETS, id, onFault: assert.fail },
          }),
      ) as [SharedIdempotency, SharedIdempotency]
      const begin = (keeper: SharedIdempotency, key: string) =>
        new Promise<Begun<unknown>>((resolve) =>
          keeper.begin(request(key, { caller: callerOf(key) }), resolve),
        )
      for (let caller = 0; caller < 20; caller++) {
        const key = `key-${caller}`
        const begun = await Promise.all([begin(one, key), begin(other, key)])
        assert.deepEqual(begun.map(({ outcome }) => outcome).sort(), ['begun', 'in_progress'])
        const [held] = begun.flatMap((each) => ('held' in each ? [each.held] : []))
        const fault = await new Promise((resolve) => one.finish(held as never, RESPONSE, resolve))
        assert.deepEqual([fault, (await begin(other, key)).outcome], [undefined, 'done'])
      }
      const asked = Array.from({ length: 20 }, (_, at) =>
        request(`key-${at}`, { caller: callerOf(`key-${at}`) }),
      )
      const found = await findSharedKeys(storeAt('cluster', ports), SECRETS, asked)
      assert.deepEqual(
        found.map((key) => key?.state),
        asked.map(() => 'done'),
      )
      for (const keeper of [one, other]) keeper.close()
    } finally {
      store.close()
      await stop()
    }
  })

  interface Known {
    /** True when the request may have reached the service. */
    isSent: boolean
    isUnknown: boolean
    isAcknowledged: boolean
    body: string | undefined
    owner: { readonly at: number; readonly held: Held; readonly requestId: string } | undefined
  }

  const commands = fc.array(
    fc.record({
      does: fc.oneof(
        { weight: 6, arbitrary: fc.constantFrom('send', 'race', 'tick') },
        { weight: 4, arbitrary: fc.constantFrom('answer', 'wait', 'late') },
        { weight: 2, arbitrary: fc.constantFrom('free', 'lose', 'kill') },
        { weight: 3, arbitrary: fc.constantFrom('up', 'lost', 'unheard', 'away') },
      ),
      key: fc.constantFrom('a', 'b'),
      at: fc.nat(1),
      waitMs: fc.constantFrom(1000, 9000, 31_000),
    }),
    { maxLength: 60, size: 'max' },
  )

  it('send a request once, and never give the response of another, in any order of requests, kills and outages', async () => {
    await fc.assert(
      fc.asyncProperty(commands, async (steps) => {
        await clear()
        const group = [open(), open()] as [ReturnType<typeof open>, ReturnType<typeof open>]
        const known = new Map<string, Known>()
        for (const key of ['a', 'b'])
          known.set(key, {
            isSent: false,
            isUnknown: false,
            isAcknowledged: false,
            body: undefined,
            owner: undefined,
          })
        let sent = 0
        const send = (at: number, key: string) => {
          const gateway = group[at] as ReturnType<typeof open>
          const one = known.get(key) as Known
          const requestId = String(++sent)
          gateway.keeper.begin(request(key, { keepMs: KEEP_MS, requestId }), (begun) => {
            // The gateway was killed meanwhile.
            if (gateway !== group[at]) return
            if (begun.outcome === 'begun') {
              assert.ok(!one.isSent && !one.isUnknown, `${key} is sent again`)
              one.isSent = true
              one.owner = { at, held: begun.held, requestId }
            } else if (begun.outcome === 'done') {
              assert.ok(one.body !== undefined && !one.isUnknown)
              assert.equal(begun.response.body, one.body)
            } else if (begun.outcome === 'unknown') {
              assert.ok(!one.isAcknowledged, `${key} was done`)
              one.isUnknown = true
            } else assert.ok(['in_progress', 'unavailable'].includes(begun.outcome), begun.outcome)
          })
        }
        const finish = (key: string, how: 'answer' | 'free' | 'lose') => {
          const one = known.get(key) as Known
          const { owner } = one
          if (owner === undefined) return
          one.owner = undefined
          const { keeper } = group[owner.at] as ReturnType<typeof open>
          if (how === 'free') one.isSent = false
          if (how === 'answer') one.body = `response ${owner.requestId} to ${key}`
          const response = how === 'answer' && { ...RESPONSE, body: one.body ?? '' }
          keeper.finish(owner.held as never, response || (how === 'free' ? 'free' : 'unknown'), (error) => {
            if (!response || error !== undefined) return
            assert.ok(!one.isUnknown, `the client of ${key} gets a response after others were told unknown`)
            one.isAcknowledged = true
          })
        }
        for (const { does, key, at, waitMs } of steps) {
          const gateway = group[at] as ReturnType<typeof open>
          if (does === 'send') send(at, key)
          else if (does === 'race') for (const each of [0, 1]) send(each, key)
          else if (does === 'tick') gateway.tick()
          else if (does === 'answer' || does === 'free' || does === 'lose') finish(key, does)
          else if (does === 'wait') time.nowMs += waitMs
          else if (does === 'kill') {
            group[at] = open()
            for (const one of known.values()) if (one.owner?.at === at) one.owner = undefined
          } else if (does === 'late' && gateway.line === 'late') gateway.carryOutLate()
          else {
            gateway.isOpen = does === 'away'
            if (does !== 'away') gateway.line = does as Line
          }
          await settled()
        }
        for (const gateway of group) {
          gateway.isOpen = false
          gateway.line = 'up'
          gateway.carryOutLate()
          for (let ticks = 0; ticks < 4; ticks++) {
            gateway.tick()
            await settled()
          }
        }
        for (const [key, one] of known)
          if (one.isAcknowledged) assert.equal(await group[0].outcome(key), 'done')
      }),
      { numRuns: 100 * LONGER },
    )
  })
})
