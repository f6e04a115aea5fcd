import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it, test } from 'node:test'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { LONGER } from '../e2e/long-runs.ts'
import { makeRow, rowWith } from '../limits/table/limit-row.test-support.ts'
import { LimitTable } from '../limits/table/limit-table.ts'
import type { Take } from '../limits/windows/window.ts'
import {
  NO_REDIS,
  PATIENT_MS,
  type RedisServer,
  SILENT,
  startRedis,
  storeAt,
  until,
} from './redis-server.test-support.ts'
import { SharedStore } from './shared-store.ts'
import { type SharedRow, sharedRowOf } from './shared-takes.ts'

const SEEDS = 5 * LONGER
/** Pause of a client between its takes. Long runs have none, so that takes interleave in other ways too. */
const PAUSE_MS = LONGER === 1 ? 4 : 0
/** Time that a gateway waits for the store by default. */
const DEADLINE_MS = 25

describe('shared takes', { skip: NO_REDIS }, () => {
  let server: RedisServer
  const stores: SharedStore[] = []
  const events: string[] = []
  before(async () => {
    server = await startRedis()
  })
  after(() => server.stop())
  afterEach(() => {
    for (const store of stores.splice(0)) store.close()
    events.length = 0
  })

  async function open(hashKey?: string, deadlineMs = PATIENT_MS): Promise<SharedStore> {
    const observer = {
      onAway: (cause: string) => events.push(`away: ${cause}`),
      onBack: () => events.push('back'),
      onFault: () => undefined,
    }
    const store = new SharedStore(storeAt('single', [server.port], { hashKey }), observer, deadlineMs)
    stores.push(store)
    await until(() => store.wasReached && !store.breaker.isOpen, 'the store')
    return store
  }

  function take(store: SharedStore, row: SharedRow, key: string): Promise<Take | undefined> {
    return new Promise((resolve) => store.takes.take(row, key, resolve))
  }

  it('are decided by one store for several gateways', async () => {
    const [one, other] = [await open(), await open()]
    const row = { identity: 'two', rule: '3 60000 1' }
    const beganMs = performance.now()
    assert.deepEqual(await take(one, row, 'a'), { allowed: true, remaining: 2, resetSeconds: 60 })
    const second = await take(other, row, 'a')
    assert.deepEqual([second?.allowed, second?.remaining], [true, 1])
    const leastSeconds = 60 - (performance.now() - beganMs) / 1000
    assert.ok(second && second.resetSeconds >= leastSeconds && second.resetSeconds <= 60)
    assert.equal((await take(one, row, 'a'))?.remaining, 0)
    const refused = await take(other, row, 'a')
    assert.deepEqual([refused?.allowed, refused?.remaining], [false, 0])
    assert.equal((await take(other, row, 'b'))?.allowed, true)
    assert.equal((await take(other, { ...row, identity: 'else' }, 'a'))?.allowed, true)
  })

  it('of one turn go out as one command, at most 128 of them', async () => {
    const store = await open()
    const row = { identity: 'turn', rule: '100 60000 1' }
    const before = store.counts.roundTrips
    const takes = await Promise.all(Array.from({ length: 200 }, () => take(store, row, 'a')))
    assert.equal(store.counts.roundTrips - before, 2)
    assert.equal(takes.filter((each) => each?.allowed).length, 100)
    assert.equal(store.counts.takes, 200)
  })

  it('of several windows count in all of them or in none, in one command', async () => {
    const store = await open()
    const row = sharedRowOf(
      rowWith([
        [2, 60_000],
        [3, 3_600_000],
      ]),
    )
    const single = { identity: 'single', rule: '1 60000 1' }
    const before = store.counts.roundTrips
    const takes = await Promise.all([
      take(store, row, 'a'),
      take(store, single, 'a'),
      take(store, row, 'a'),
      take(store, row, 'a'),
      take(store, single, 'a'),
      take(store, row, 'b'),
    ])
    assert.equal(store.counts.roundTrips - before, 1)
    const shown = (one: Take | undefined): unknown[] =>
      one === undefined ? [] : [one.allowed ? one.remaining : 'refused', ...shown(one.next)]
    assert.deepEqual(takes.map(shown), [[1, 2], [0], [0, 1], ['refused', 1], ['refused'], [1, 2]])
    assert.equal(store.counts.takes, 6)
    const keys = (await server.command('KEYS', '*:60000')) as string[]
    assert.ok(
      keys.some((key) => /^test:\{[A-Za-z0-9_-]{22}\}:60000$/.test(key)),
      'both windows hash to one slot',
    )
  })

  it('of rows beside each other go in one command, and rows in shadow mode do not count what enforced rows refuse', async () => {
    const store = await open()
    const rows = [
      makeRow({ path: '/beside', limit: 1 }),
      makeRow({ name: 'trial', path: '/*', limit: 5, mode: 'shadow', isOverall: true, per: 'address' }),
    ]
    const row = sharedRowOf(new LimitTable(rows).find('/beside', 'GET') ?? assert.fail())
    const caller = { principal: undefined, address: '192.0.2.1' }
    const before = store.counts.roundTrips
    const takes = await Promise.all(
      ['a', 'a', 'b', 'a'].map(
        (key) => new Promise<Take | undefined>((resolve) => store.takes.take(row, key, resolve, caller)),
      ),
    )
    assert.equal(store.counts.roundTrips - before, 1)
    assert.deepEqual(
      takes.map((one) => [one?.allowed, one?.remaining, one?.beside?.remaining]),
      [
        [true, 0, 4],
        [false, 0, 4],
        [true, 0, 3],
        [false, 0, 3],
      ],
    )
  })

  it('gather while a command is under way', async () => {
    const store = await open()
    const row = { identity: 'gather', rule: '100 60000 1' }
    const before = store.counts.roundTrips
    server.signal('SIGSTOP')
    const first = take(store, row, 'a')
    await nextTurn()
    const later: Promise<Take | undefined>[] = []
    for (let turn = 0; turn < 5; turn++) {
      later.push(take(store, row, 'a'))
      await nextTurn()
    }
    assert.equal(store.breaker.pending, 1)
    server.signal('SIGCONT')
    assert.deepEqual(
      (await Promise.all([first, ...later])).map((each) => each?.remaining),
      [99, 98, 97, 96, 95, 94],
    )
    assert.equal(store.counts.roundTrips - before, 2)
  })

  it('that gathered are not sent once the store is known to be away, and end at the same time', async () => {
    const store = await open(undefined, DEADLINE_MS)
    const row = { identity: 'gathered', rule: '100 60000 1' }
    server.signal('SIGSTOP')
    const told: number[] = []
    const note = (id: number) => (each: Take | undefined) => void (each === undefined && told.push(id))
    store.takes.take(row, 'a', note(1))
    await nextTurn()
    store.takes.take(row, 'a', note(2))
    store.takes.take(row, 'a', note(3))
    await until(() => told.length > 0, 'the end of the wait')
    assert.deepEqual(told.toSorted(), [1, 2, 3])
    server.signal('SIGCONT')
    // The first one was sent, the others were not.
    assert.equal((await take(await open(), row, 'a'))?.remaining, 98)
  })

  it('load the script again when the server forgot it, and count nothing twice', async () => {
    const store = await open()
    const row = { identity: 'reload', rule: '10 60000 1' }
    await take(store, row, 'a')
    const before = store.counts.scriptReloads
    await server.command('SCRIPT', 'FLUSH')
    assert.equal((await take(store, row, 'a'))?.remaining, 8)
    assert.equal((await take(store, row, 'a'))?.remaining, 7)
    assert.equal(store.counts.scriptReloads - before, 1)
    assert.deepEqual(events, [])
  })

  it('leave no name in the store', async () => {
    const store = await open('k'.repeat(32))
    await take(store, { identity: 'secret-row', rule: '5 60000 1' }, 'alice@example.com')
    const keys = (await server.command('KEYS', '*')) as string[]
    assert.doesNotMatch(keys.join(), /alice|secret-row/)
    assert.ok(keys.some((key) => /^test:\{[A-Za-z0-9_-]{22}\}$/.test(key)))
  })

  it('hash with the key that the first gateway left, and after a loss of data with the new key', async () => {
    const [one, other] = [await open(), await open()]
    assert.equal(one.keys.hashKey, other.keys.hashKey)
    await server.kill()
    await server.restart()
    await until(() => one.connection.isReady && other.connection.isReady, 'the connections')
    const late = await open()
    await until(() => [one, other].every(({ keys }) => keys.hashKey === late.keys.hashKey), 'the same key')
  })

  for (const limit of [7, 1200]) {
    it(`admit ${limit} hits of many clients in a window, and never more in any window`, async () => {
      const clients = await Promise.all([open(), open(), open()])
      for (let seed = 0; seed < SEEDS; seed++) {
        const windowMs = 300
        const row = { identity: `exact-${limit}`, rule: `${limit} ${windowMs} 1` }
        const key = `caller-${seed}`
        const allowed: [sentMs: number, doneMs: number][] = []
        let undecided = 0
        const endMs = performance.now() + 900
        const turns = limit > 1000 ? 64 : 4
        const run = async (store: SharedStore) => {
          // Long enough for two windows, however slow the machine is.
          while (performance.now() < endMs || allowed.length + undecided < 2 * limit) {
            const sentMs = performance.now()
            const takes = await Promise.all(Array.from({ length: turns }, () => take(store, row, key)))
            const doneMs = performance.now()
            for (const each of takes) {
              if (each?.allowed) allowed.push([sentMs, doneMs])
              // Such a take may have been counted; on a busy machine the server can be late.
              if (each === undefined) undecided++
            }
            await sleep(PAUSE_MS * Math.random())
          }
        }
        await Promise.all(clients.map(run))
        assert.ok(allowed.length + undecided >= 2 * limit, `${allowed.length}`)
        assertNeverOver(allowed, { limit, windowMs })
      }
    })
  }

  it('wait for a server that takes no writes yet, and use its key then', async () => {
    const refusing = await startRedis(['--min-replicas-to-write', '1'])
    const store = new SharedStore(storeAt('single', [refusing.port], { hashKey: undefined }), SILENT)
    stores.push(store)
    try {
      await until(() => store.connection.isReady, 'a connection')
      await store.connection.send(['PING'])
      assert.deepEqual([store.wasReached, store.breaker.isOpen], [false, true])
      await refusing.command('SET', 'test:hash-key', 'x').catch(() => undefined)
      // Sent in one write, so that the gateway does not put its own key in between.
      await Promise.all([
        store.connection.send(['CONFIG', 'SET', 'min-replicas-to-write', '0']),
        store.connection.send(['SET', 'test:hash-key', 'another gateway was first']),
      ])
      await until(() => store.wasReached && !store.breaker.isOpen, 'the store')
      assert.equal(store.keys.hashKey, 'another gateway was first')
    } finally {
      await refusing.stop()
    }
  })

  it('are kept apart from takes of gateways with another key, which is reported', async () => {
    await open('a'.repeat(32))
    const faults: string[] = []
    const settings = storeAt('single', [server.port], { hashKey: 'b'.repeat(32) })
    const observer = { ...SILENT, onFault: (cause: string) => faults.push(cause) }
    const other = new SharedStore(settings, observer)
    stores.push(other)
    await until(() => faults.length === 1, 'the fault')
    assert.equal(other.isShared, false)
    assert.match(faults[0] ?? '', /different GATEWAY_STORE_KEY_FILE/)
  })

  it('of a gateway without a given key are kept apart from gateways with one, until that key is gone', async () => {
    const fresh = await startRedis()
    const faults: string[] = []
    const observer = { ...SILENT, onFault: (cause: string) => faults.push(cause) }
    const [store, other] = [undefined, 'b'.repeat(32)].map((hashKey) => {
      const made = new SharedStore(storeAt('single', [fresh.port], { hashKey }), observer, PATIENT_MS)
      stores.push(made)
      return made
    }) as [SharedStore, SharedStore]
    const looksUntil = (isShared: boolean) =>
      until(() => {
        store.look(assert.fail)
        return store.isShared === isShared
      }, 'what it sees')
    try {
      await until(() => other.wasReached && !store.breaker.isOpen, 'the stores')
      await looksUntil(false)
      assert.match(faults[0] ?? '', /a GATEWAY_STORE_KEY_FILE, .* share nothing: .* remove test:key-mark$/)
      other.close()
      await fresh.command('DEL', 'test:key-mark')
      await looksUntil(true)
      assert.deepEqual([other.isShared, new Set(faults).size], [true, 1])
    } finally {
      await fresh.stop()
    }
  })

  it('learn within 25 ms that the store is frozen, then at once, and go on when it is back', async () => {
    const store = await open(undefined, DEADLINE_MS)
    const row = { identity: 'frozen', rule: '1000000 60000 1' }
    let waitedMs = Number.POSITIVE_INFINITY
    // Ends with the first quick try, because a busy machine delays others.
    for (let tries = 0; waitedMs >= 200; tries++) {
      assert.ok(tries < 50, `${waitedMs}`)
      server.signal('SIGCONT')
      // An earlier command that is still pending would reach its deadline before the take.
      await until(() => !store.breaker.isOpen && store.breaker.pending === 0, 'the store')
      server.signal('SIGSTOP')
      const beganMs = performance.now()
      assert.equal(await take(store, row, 'a'), undefined)
      waitedMs = performance.now() - beganMs
      assert.ok(waitedMs > 20, `${waitedMs}`)
      assert.equal(events.at(-1), 'away: no reply within 25 ms')
    }
    let undecided = 0
    for (let i = 0; i < 10_000; i++)
      store.takes.take(row, 'a', (each) => (undecided += each === undefined ? 1 : 0))
    assert.equal(undecided, 10_000, 'without a turn of the event loop')
    assert.equal(store.breaker.pending, 0)
    const before = events.length
    server.signal('SIGCONT')
    await until(async () => (await take(store, row, 'a'))?.allowed === true, 'the store')
    assert.equal(events[before], 'back')
  })

  it('go on by themselves after the store was killed and started again', async () => {
    const store = await open()
    const row = { identity: 'killed', rule: '5 60000 1' }
    await take(store, row, 'a')
    await server.kill()
    assert.equal(await take(store, row, 'a'), undefined)
    await server.restart()
    await until(() => !store.breaker.isOpen, 'the store')
    assert.equal((await take(store, row, 'a'))?.remaining, 4, 'without a disk the counts are lost')
  })
})

/**
 * Each hit was counted between its two known times. Fails when more than `limit` hits were certainly counted within
 * less than a window.
 */
function assertNeverOver(
  hits: readonly [sentMs: number, doneMs: number][],
  { limit, windowMs }: { readonly limit: number; readonly windowMs: number },
): void {
  // Hits that were sent at the same time begin the same window.
  for (const from of new Set(hits.map(([sentMs]) => sentMs))) {
    const inside = hits.filter(([sentMs, doneMs]) => sentMs >= from && doneMs < from + windowMs)
    assert.ok(inside.length <= limit, `${inside.length} of ${limit}`)
  }
}

const ROW = makeRow({
  name: 'login',
  path: '/api/login',
  limit: 5,
  purpose: 'p',
})

test('a row keeps its place in the store when its name, limit or window is edited', () => {
  const edited = sharedRowOf({ ...ROW, name: 'sign-in', limit: 2000, windowMs: 1000 })
  assert.deepEqual(edited, { identity: sharedRowOf(ROW).identity, rule: '2000 1000 1' })
})

test('the longest of several windows has the place of a single window, each other window a place by its length', () => {
  const hour = { identity: sharedRowOf(makeRow()).identity, rule: '9 3600000 1' }
  const minute = { ...hour, rule: '2 60000 1', suffix: ':60000' }
  const bounds = [[2, 60_000] as const, [9, 3_600_000] as const]
  assert.deepEqual(sharedRowOf(rowWith(bounds)), { ...minute, rule: '-2 60000 1', next: hour })
  assert.deepEqual(sharedRowOf(rowWith(bounds.toReversed())), { ...hour, rule: '-9 3600000 1', next: minute })
  assert.deepEqual(sharedRowOf(rowWith(bounds.slice(1))), hour)
})

test('the cost of a row belongs to each of its windows', () => {
  const bounds = [[9, 60_000] as const, [90, 3_600_000] as const]
  const shared = sharedRowOf(rowWith(bounds, { cost: 7 }))
  assert.deepEqual([shared.rule, shared.next?.rule], ['-9 60000 7', '90 3600000 7'])
})

test('a row of "overall" has a place of its own, and a row in shadow mode follows the enforced rows', () => {
  const rows = [makeRow(), makeRow({ name: 'o', isOverall: true, per: 'address' })]
  const list = (mode: 'enforce' | 'shadow') =>
    sharedRowOf(
      new LimitTable(rows.map((row, at) => ({ ...row, mode: at === 0 ? mode : 'enforce' }))).find(
        '/api/x',
        'GET',
      )!,
    )
  const enforced = list('enforce')
  assert.notEqual(enforced.beside?.identity, enforced.identity)
  assert.deepEqual(
    [enforced.rule, enforced.per, enforced.beside?.rule, enforced.beside?.per],
    ['-3 60000 1', undefined, '3 60000 1', 'address'],
  )
  const { rule, beside } = list('shadow')
  assert.deepEqual([rule, beside?.per, beside?.rule], ['3 60000 1', 'caller', '3 60000 -1'])
})

test('the order of methods makes no difference, but other paths and methods have other places', () => {
  const identities = [
    sharedRowOf(ROW),
    sharedRowOf({ ...ROW, path: '/api/login/*' }),
    sharedRowOf({ ...ROW, methods: new Set(['GET']) }),
    sharedRowOf({ ...ROW, methods: new Set(['GET', 'POST']) }),
  ].map(({ identity }) => identity)
  assert.equal(new Set(identities).size, 4)
  assert.equal(sharedRowOf({ ...ROW, methods: new Set(['POST', 'GET']) }).identity, identities[3])
})
