import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { NO_REDIS, startRedis } from '../store/redis-server.test-support.ts'
import { LONGER } from './long-runs.ts'
import { until } from './running-gateway.ts'
import { faultsOf, type StoreDecisions, watchDecisions } from './store-decisions.ts'
import { type StoreGroup, startGroup } from './store-group.ts'
import { mostWithin, type Sent, startLoad } from './store-load.ts'

const SEEDS = LONGER
const RESTARTS = LONGER === 1 ? 1 : 3
const CONNECTIONS = 64
/** The longest pause of a connection between requests, so that a short run asks only a little faster than the rows allow. */
const PAUSE_MS = LONGER === 1 ? 140 : 0
/** The longest pause after a refusal. With all connections, a request still comes every few milliseconds. */
const REFUSED_MS = LONGER === 1 ? 280 : 0
/** A deadline so long that the store decides every take, even on a busy machine. */
const CONFIG = { onStoreFailure: { deadlineMs: 10_000 } }

interface Row {
  readonly path: string
  readonly limit: number
  readonly windowSeconds: number
}

function randomOf(seed: number): () => number {
  let state = (seed + 1) * 2_654_435_761
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** A small log, a larger log and slices. No two rows of a test are equal, so that their keys differ. */
function rowsOf(seed: number): Row[] {
  const random = randomOf(seed)
  const seconds = (least: number) => least + Math.floor(random() * (4 - least))
  const upTo = (from: number, to: number) => from + Math.floor(random() * (to - from))
  return [
    { path: `/${seed}/small`, limit: upTo(2, 60), windowSeconds: seconds(1) },
    { path: `/${seed}/log`, limit: upTo(200, 400), windowSeconds: seconds(2) },
    { path: `/${seed}/slices`, limit: upTo(1001, 1100), windowSeconds: 3 },
  ]
}

const tableRow = ({ path, limit, windowSeconds }: Row) => ({
  name: path.slice(1).replace('/', '-'),
  path,
  limit,
  window: `${windowSeconds}s`,
  purpose: 'tests',
})

/** Counts, by path, when each request was sent and arrived upstream, and the responses by status. */
function tally() {
  const statuses = new Map<string, Map<number, number>>()
  const arrivals = new Map<string, { sentAtMs: number; arrivedAtMs: number }[]>()
  return {
    statuses,
    arrivals,
    arrived: (url: string) => {
      const [path = '', sent = ''] = url.split('?')
      const list = arrivals.get(path) ?? []
      arrivals.set(path, list)
      list.push({ sentAtMs: Number(sent), arrivedAtMs: performance.now() })
    },
    onSent: ({ path, status }: Sent) => {
      const [row = ''] = path.split('?')
      const counts = statuses.get(row) ?? new Map<number, number>()
      statuses.set(row, counts)
      counts.set(status, (counts.get(status) ?? 0) + 1)
    },
  }
}

describe('three gateways and one store', { skip: NO_REDIS }, () => {
  /** Sends requests to the rows of a seed until each was used up in several windows. */
  async function load(seed: number, meanwhile: () => Promise<void>): Promise<void> {
    const rows = rowsOf(seed)
    const random = randomOf(seed + 1000)
    const isUsedUp = ({ limit }: Row) => {
      const key = decisions.all().find((one) => one.limit === limit)
      return (
        key !== undefined && key.hitsUs.length > 2 * limit && (key.refused.at(-1)?.hits ?? 0) >= 2 * limit
      )
    }
    /** Picks a row in proportion to its rate, mostly one that is not used up, so that a slow machine uses up all. */
    const pick = () => {
      const rest = random() < 0.7 ? rows.filter((row) => !isUsedUp(row)) : []
      const some = rest.length > 0 ? rest : rows
      const shareOf = ({ limit, windowSeconds }: Row) => 30 + limit / windowSeconds
      let left = random() * some.reduce((sum, row) => sum + shareOf(row), 0)
      const picked = some.find((row) => {
        left -= shareOf(row)
        return left < 0
      })
      return picked ?? (some[0] as Row)
    }
    decisions.forget()
    const running = startLoad({
      ports: group.ports,
      connections: CONNECTIONS,
      path: () => `${pick().path}?${performance.now()}`,
      pauseMs: (status) => random() * (random() < 0.02 ? 100 : status === 429 ? REFUSED_MS : PAUSE_MS),
      onSent: counts.onSent,
    })
    try {
      await meanwhile()
      await until(() => rows.every(isUsedUp) || undefined, 60_000)
    } finally {
      await running.stop()
    }
    await decisions.settled()
  }

  const SEEDS_OF_RESTARTS = Array.from({ length: Math.ceil(SEEDS / 4) }, (_, i) => 100 + i)
  const ALL_SEEDS = Array.from({ length: SEEDS }, (_, seed) => seed)
  const counts = tally()
  const cleanups: (() => unknown)[] = []
  let group: StoreGroup
  let decisions: StoreDecisions
  before(async () => {
    const redis = await startRedis()
    cleanups.push(() => redis.stop())
    group = await startGroup({
      store: `redis://127.0.0.1:${redis.port}`,
      limits: [...ALL_SEEDS, ...SEEDS_OF_RESTARTS].flatMap(rowsOf).map(tableRow),
      config: CONFIG,
      respond: (req, res) => {
        counts.arrived(req.url ?? '')
        res.end('{}')
      },
    })
    cleanups.push(() => group.stop())
    decisions = await watchDecisions(redis)
    cleanups.push(() => decisions.close())
  })
  after(async () => {
    for (const clean of cleanups.reverse()) await clean()
  })

  it('let exactly as many requests through as each row allows, in every window', async (test) => {
    for (const seed of ALL_SEEDS) {
      await load(seed, async () => undefined)
      const told: string[] = []
      for (const key of decisions.all()) {
        assert.deepEqual(faultsOf(key), [], `seed ${seed}`)
        const row = rowsOf(seed).find(({ limit }) => limit === key.limit) as Row
        // The gateways did exactly what the store decided.
        const statuses = Object.fromEntries(counts.statuses.get(row.path) ?? [])
        assert.deepEqual(statuses, { 200: key.hitsUs.length, 429: key.refused.length }, `seed ${seed}`)
        const arrived = counts.arrivals.get(row.path) ?? []
        assert.equal(arrived.length, key.hitsUs.length)
        const most = mostWithin(arrived, row.windowSeconds * 1000)
        assert.ok(most <= row.limit, `seed ${seed}: ${most} of ${row.limit} seen from outside`)
        told.push(`${arrived.length} of ${row.limit} in ${row.windowSeconds} s (at most ${most} seen)`)
      }
      test.diagnostic(`seed ${seed}: ${told.join(', ')}`)
    }
  })

  it('let no more through than each row allows while one gateway after the other is killed and started again', async (test) => {
    for (const seed of SEEDS_OF_RESTARTS) {
      await load(seed, async () => {
        for (let index = 0; index < RESTARTS; index++) await group.restart(index)
      })
      for (const key of decisions.all()) {
        assert.deepEqual(faultsOf(key), [], `seed ${seed}`)
        const row = rowsOf(seed).find(({ limit }) => limit === key.limit) as Row
        const arrived = counts.arrivals.get(row.path) ?? []
        // Requests that were counted but not yet forwarded ended with their gateway.
        const lost = key.hitsUs.length - arrived.length
        test.diagnostic(
          `seed ${seed}: ${arrived.length} of ${row.limit} in ${row.windowSeconds} s, ${lost} lost`,
        )
        assert.ok(lost >= 0 && lost <= group.gateways.length * CONNECTIONS, `${lost} lost`)
        const most = mostWithin(arrived, row.windowSeconds * 1000)
        assert.ok(most <= row.limit, `seed ${seed}: ${most} of ${row.limit} seen from outside`)
      }
    }
  })
})
