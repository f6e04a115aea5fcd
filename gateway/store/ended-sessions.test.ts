import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, afterEach, before, describe, it } from 'node:test'
import { StoreConnection } from './connection/store-connection.ts'
import { EndedSessions } from './ended-sessions.ts'
import {
  NO_REDIS,
  PATIENT_MS,
  type RedisServer,
  startRedis,
  storeAt,
  until,
} from './redis-server.test-support.ts'
import { SharedStore } from './shared-store.ts'
import { type EventKind, StoreEvents, streamKey } from './store-events.ts'
import { StoreKeys } from './store-keys.ts'

interface Member {
  readonly ended: EndedSessions
  readonly events: StoreEvents
  readonly store: SharedStore
  readonly heard: [EventKind, string][]
  /** Ends a session as the gateway does: in its own file first. */
  end(sid: string): void
}

describe('sessions that end at one gateway', { skip: NO_REDIS }, () => {
  let server: RedisServer
  const members: Member[] = []
  before(async () => {
    server = await startRedis(['--appendonly', 'yes'])
  })
  after(() => server.stop())
  afterEach(async () => {
    for (const { events, store } of members.splice(0)) {
      events.close()
      store.close()
    }
    await server.command('FLUSHALL')
  })

  async function restart(): Promise<void> {
    await server.kill().catch(() => undefined)
    await server.restart()
    await until(async () => (await server.command('PING').catch(() => '')) === 'PONG', 'the loaded data')
  }

  /** @param own sessions in its file */
  async function join(own: string[] = [], hashKey?: string, clock = Date.now): Promise<Member> {
    const settings = storeAt('single', [server.port], { hashKey })
    const observer = {
      onAway: () => undefined,
      onBack: () => ended.maintain(),
      onFault: () => undefined,
    }
    const store = new SharedStore(settings, observer, PATIENT_MS)
    const { breaker, keys } = store
    const id = randomUUID()
    const ended = new EndedSessions({
      breaker,
      keys,
      id,
      clock,
      own: () => own.map((sid) => [sid, clock()] as const),
    })
    const heard: [EventKind, string][] = []
    const connection = new StoreConnection(settings)
    const events = new StoreEvents({
      connection,
      keys,
      id,
      beforeFollowing: async (send) => {
        await until(() => store.wasReached, 'the key')
        await ended.readAll(send)
      },
      onEvent: (kind, hash, agoMs) => {
        heard.push([kind, hash])
        if (kind === 'ended') ended.apply(hash, agoMs)
      },
      onFault: () => undefined,
    })
    const end = (sid: string) => {
      own.push(sid)
      ended.publish(sid)
    }
    const member = { ended, events, store, heard, end }
    members.push(member)
    await until(() => events.isCurrent, 'the events')
    return member
  }

  it('have ended at the other gateways at once, and other sessions have not', async () => {
    const [one, other] = [await join(), await join()]
    one.end('https://issuer#s-1')
    await until(() => other.ended.has('https://issuer#s-1'), 'the end of the session')
    assert.equal(other.ended.has('https://issuer#s-2'), false)
    assert.deepEqual([one.heard, other.heard.length], [[], 1])
  })

  it('are known at the other gateways within 100 ms in the median', async () => {
    const [one, other] = [await join(), await join()]
    const tookMs: number[] = []
    for (let i = 0; i < 200; i++) {
      const startMs = performance.now()
      one.end(`s-${i}`)
      await until(() => other.ended.has(`s-${i}`), `the end of s-${i}`)
      tookMs.push(performance.now() - startMs)
    }
    tookMs.sort((a, b) => a - b)
    assert.ok((tookMs[100] ?? 0) < 100, `median ${tookMs[100]} ms`)
  })

  it('are all known at a later gateway before it is complete, also sessions of an earlier run', async () => {
    const one = await join(Array.from({ length: 2500 }, (_, i) => `old-${i}`))
    await until(() => one.ended.unsent === 0, 'what was sent')
    const late = await join()
    for (const i of [0, 999, 1000, 2499]) assert.ok(late.ended.has(`old-${i}`), `old-${i}`)
  })

  it('are forgotten by all gateways when their tokens have expired, whenever a gateway learnt of them', async () => {
    const HOUR_MS = 3_600_000
    const set = `${streamKey(new StoreKeys('test', 'k'))}:ended`
    await server.command('ZADD', set, `${Date.now() - 23 * HOUR_MS}`, 'hash-of-another')
    let aheadMs = 0
    const late = await join([], undefined, () => Date.now() + aheadMs)
    await server.command('ZREM', set, 'hash-of-another')
    // Until its tokens have expired, a store that lost the session gets it again, with its age.
    late.events.restart()
    await until(async () => (await server.command('ZSCORE', set, 'hash-of-another')) !== null, 'it again')
    assert.ok(Number(await server.command('ZSCORE', set, 'hash-of-another')) < Date.now() - 22 * HOUR_MS)
    await server.command('ZREM', set, 'hash-of-another')
    aheadMs = 2 * HOUR_MS
    late.events.restart()
    await until(() => late.events.isCurrent && late.ended.unsent === 0, 'the second reading')
    assert.equal(await server.command('ZCARD', set), 0)
  })

  it('that end again are remembered by all gateways, for tokens issued in between', async () => {
    const HOUR_MS = 3_600_000
    const [hashKey, set] = ['k'.repeat(32), `${streamKey(new StoreKeys('test', 'k'.repeat(32)))}:ended`]
    let aheadMs = 0
    const one = await join([], hashKey)
    const hash = one.store.keys.hashOf('session\0s-1')
    await server.command('ZADD', set, `${Date.now() - 20 * HOUR_MS}`, hash)
    const other = await join([], hashKey, () => Date.now() + aheadMs)
    assert.ok(other.ended.has('s-1'))
    one.end('s-1')
    one.end('s-2')
    await until(() => other.ended.has('s-2'), 'the end of the second session')
    assert.ok(Number(await server.command('ZSCORE', set, hash)) > Date.now() - HOUR_MS, 'in the store')
    aheadMs = 5 * HOUR_MS
    one.end('s-3')
    await until(() => other.ended.has('s-3'), 'the end of the third session')
    assert.ok(other.ended.has('s-1'), 'at the other gateway')
  })

  it('keep their age when a store that lost its data gets them back', async () => {
    const HOUR_MS = 3_600_000
    let aheadMs = 0
    const [one, other] = [await join(), await join([], undefined, () => Date.now() + aheadMs)]
    const hash = one.store.keys.hashOf('session\0s-0')
    const event = ['kind', 'ended', 'hash', hash, 'origin', 'a', 'agoMs', `${23 * HOUR_MS}`]
    await server.command('XADD', streamKey(one.store.keys), '*', ...event)
    await until(() => other.ended.has('s-0'), 'the event')
    aheadMs = 2 * HOUR_MS
    one.end('s-1')
    await until(() => other.ended.has('s-1'), 'the end of the session')
    assert.equal(other.ended.has('s-0'), false)
  })

  it('are not named in the store', async () => {
    const one = await join()
    one.end('https://issuer#alice')
    await until(() => one.ended.unsent === 0, 'what was sent')
    for (const key of (await server.command('KEYS', '*')) as string[]) {
      const value = await server.command('DUMP', key)
      assert.doesNotMatch(`${key} ${value}`, /alice/)
    }
  })

  it('survive a restart of the store, and a store that comes back empty gets them again', async () => {
    const [one, other] = [await join(), await join()]
    one.end('before')
    await until(() => other.ended.has('before'), 'the end of the session')
    await server.kill()
    one.end('while away')
    await restart()
    await until(() => other.events.isCurrent, 'the second connection')
    one.ended.maintain()
    await until(() => {
      one.ended.maintain()
      return other.ended.has('while away')
    }, 'what ended while the store was away')
    await server.command('FLUSHALL')
    await restart()
    await until(async () => {
      one.ended.maintain()
      const set = `${streamKey(one.store.keys)}:ended`
      return Number(await server.command('ZCARD', set)) === 2
    }, 'both in the store')
  })

  it('are not sent again when they are known', async () => {
    const own = ['s-1', 's-2']
    const one = await join([...own])
    await until(() => one.ended.unsent === 0, 'what was sent')
    await join([...own])
    const length = await server.command('XLEN', streamKey(one.store.keys))
    assert.equal(length, 2)
  })

  it('are hashed with the key that all gateways share', async () => {
    const one = await join([], 'a'.repeat(40))
    const stranger = await join([], 'b'.repeat(40))
    one.end('s-1')
    await until(() => stranger.heard.length === 1, 'an event')
    assert.equal(stranger.ended.has('s-1'), false)
  })

  /** Does what the gateway does once a second. */
  function maintain({ ended, events, store }: Member): void {
    store.look(() => events.restart())
    ended.maintain()
  }

  it('come back into a store that lost its data while all gateways stayed connected', async () => {
    const key = 'k'.repeat(32)
    const [one, other] = [await join([], key), await join([], key)]
    one.end('s-1')
    await until(() => other.ended.has('s-1'), 'the end of the session')
    // The gateway at which the session ended is gone for good.
    one.events.close()
    one.store.close()
    await server.command('FLUSHALL')
    const late = await join([], key)
    await until(() => {
      maintain(other)
      return late.ended.has('s-1')
    }, 'the end of the session')
  })

  it('stay ended when the store comes back with the key of another gateway', async () => {
    const [one, other] = [await join(), await join()]
    one.end('s-1')
    await until(() => other.ended.has('s-1'), 'the end of the session')
    await server.command('FLUSHALL')
    const late = await join()
    assert.notEqual(late.store.keys.hashKey, other.store.keys.hashKey)
    maintain(other)
    await until(() => late.store.keys.hashKey === other.store.keys.hashKey, 'the key')
    assert.ok(other.ended.has('s-1'), 'known by the key that is gone')
    await until(() => {
      maintain(one)
      return late.ended.has('s-1')
    }, 'the end of the session, by the new key')
    one.end('s-2')
    await until(() => other.ended.has('s-2') && late.ended.has('s-2'), 'the next one')
  })

  it('go to the store in batches, however many there are', async () => {
    const own = Array.from({ length: 20_000 }, (_, i) => `s-${i}`)
    const one = await join(own)
    await until(() => one.ended.unsent === 0, 'what was sent')
    assert.equal(await server.command('ZCARD', `${streamKey(one.store.keys)}:ended`), 20_000)
    assert.ok(one.store.counts.roundTrips < 500, `${one.store.counts.roundTrips} commands`)
  })
})
