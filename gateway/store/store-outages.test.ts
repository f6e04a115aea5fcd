import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreSettings } from '../config/rules/store-address.ts'
import { LONGER } from '../e2e/long-runs.ts'
import { NO_REDIS, SILENT, startRedis, startSentinel, storeAt, until } from './redis-server.test-support.ts'
import { SharedStore } from './shared-store.ts'

const SEEDS = 2 * LONGER
const GATEWAYS = 3
const AT_ONCE = 8
/** Longer than the default, for a busy machine, and shorter than a freeze. */
const DEADLINE_MS = 100
const FREEZE_MS = 300
/** Longer than a test, so that each hit allowed beyond `limit` is one too many. */
const WINDOW_MS = 600_000

describe('limits while the store has outages', { skip: NO_REDIS }, () => {
  const cleanups: (() => void | Promise<void>)[] = []
  afterEach(async () => {
    for (const clean of cleanups.splice(0).reverse()) await clean()
  })

  /** Stores that have lost a connection. */
  const dropped = new Set<SharedStore>()

  function openStore(settings: StoreSettings): SharedStore {
    const onFault = () => dropped.add(store)
    const store: SharedStore = new SharedStore(settings, { ...SILENT, onFault }, DEADLINE_MS)
    cleanups.push(() => store.close())
    return store
  }

  async function openStores(settings: StoreSettings): Promise<SharedStore[]> {
    const stores = Array.from({ length: GATEWAYS }, () => openStore(settings))
    for (const store of stores) await until(() => store.wasReached && !store.breaker.isOpen, 'the store')
    return stores
  }

  /** Waits until each store has responded once. On a busy machine, they may never all be there at once. */
  async function back(stores: readonly SharedStore[]): Promise<void> {
    const left = new Set(stores)
    await until(() => {
      for (const store of left) if (!store.breaker.isOpen) left.delete(store)
      return left.size === 0
    }, 'the store')
  }

  /** Takes from all stores at once until stopped, each take a moment after the last. */
  function takeAlways(stores: readonly SharedStore[], limit: number, key: string) {
    const counts = { allowed: 0, refused: 0, undecided: 0 }
    let stopped = false
    const row = { identity: 'row', rule: `${limit} ${WINDOW_MS} 1` }
    const caller = async (store: SharedStore) => {
      while (!stopped) {
        const take = await new Promise<{ allowed: boolean } | undefined>((resolve) => {
          store.takes.take(row, key, resolve)
        })
        if (take === undefined) counts.undecided++
        else if (take.allowed) counts.allowed++
        else counts.refused++
        await sleep(1 + Math.random() * 4)
      }
    }
    cleanups.push(() => {
      stopped = true
    })
    const all = stores.flatMap((store) => Array.from({ length: AT_ONCE }, () => caller(store)))
    return {
      counts,
      stop: async () => {
        stopped = true
        await Promise.all(all)
      },
    }
  }

  it('admit no hit too many while the store is frozen, forgets the script, drops connections or is killed', async () => {
    const server = await startRedis(['--appendonly', 'yes', '--appendfsync', 'always'])
    cleanups.push(() => server.stop())
    const stores = await openStores(storeAt('single', [server.port]))
    for (let seed = 0; seed < SEEDS; seed++) {
      const limit = seed % 2 === 0 ? 900 : 1500
      const { counts, stop } = takeAlways(stores, limit, `caller-${seed}`)
      await sleep(50)
      server.signal('SIGSTOP')
      await sleep(FREEZE_MS)
      server.signal('SIGCONT')
      await back(stores)
      await server.command('SCRIPT', 'FLUSH')
      await sleep(50)
      await server.command('CLIENT', 'KILL', 'TYPE', 'normal').catch(() => undefined)
      await back(stores)
      await server.kill()
      await server.restart()
      await back(stores)
      await until(() => counts.refused > 100, 'the end of the limit')
      await stop()
      assert.ok(counts.undecided > 0)
      assert.ok(counts.allowed <= limit, `${counts.allowed} of ${limit}`)
      // A take without a decision may have been counted.
      assert.ok(counts.allowed + counts.undecided >= limit, JSON.stringify(counts))
    }
  })

  for (const how of ['killed', 'frozen'])
    it(`admit at most what was in flight when the master of Sentinel is ${how}`, async (test) => {
      const { master, replica, sentinel, stop: stopServers } = await startSentinel()
      cleanups.push(stopServers)
      const stores = await openStores(storeAt('sentinel', [sentinel.port]))
      const limit = 900
      const { counts, stop } = takeAlways(stores, limit, 'caller')
      await until(() => counts.allowed > 200, 'the first hits')
      dropped.clear()
      if (how === 'killed') await master.kill()
      else master.signal('SIGSTOP')
      await until(() => stores.every((store) => dropped.has(store)), 'the outage')
      await until(async () => ((await replica.command('ROLE')) as string[])[0] === 'master', 'the failover')
      // Sentinel names the new master a moment after it has made it one.
      const named = () => sentinel.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'bank')
      await until(async () => ((await named()) as string[])[1] === `${replica.port}`, 'its name')
      // For a while the old master still believes that it is the master.
      master.signal('SIGCONT')
      await back(stores)
      await until(() => counts.refused > 100, 'the end of the limit')
      await stop()
      const over = Math.max(0, counts.allowed - limit)
      test.diagnostic(`allowed ${over} beyond ${limit}`)
      assert.ok(over <= GATEWAYS * AT_ONCE, `${over}: more than were in flight`)
    })
})
