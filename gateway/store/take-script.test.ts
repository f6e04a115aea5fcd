import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createClient } from '@redis/client'
import fc from 'fast-check'
import { LONGER } from '../e2e/long-runs.ts'
import { anyLaw, holdsLaw } from '../limits/limit-law.test-support.ts'
import { Limiter } from '../limits/limiter.ts'
import { rowWith } from '../limits/table/limit-row.test-support.ts'
import { type LimitRow, windowsOf } from '../limits/table/limit-table.ts'
import { Counters, KeyBudget } from '../limits/windows/counters.ts'
import type { Take } from '../limits/windows/window.ts'
import type { StoreReply } from './connection/store-link.ts'
import { NO_REDIS, type RedisServer, startRedis } from './redis-server.test-support.ts'
import { SharedTakes, sharedRowOf } from './shared-takes.ts'
import { REAL_TIMERS, type StoreBreaker, type StoreCall } from './store-breaker.ts'
import { newStoreCounts } from './store-counts.ts'
import { StoreKeys } from './store-keys.ts'
import { READ_CLOCK, TAKE_SCRIPT } from './take-script.ts'

/** The script with the clock of the test. */
const CLOCKED = TAKE_SCRIPT.replace(READ_CLOCK, 'local time = { ARGV[#ARGV - 1], ARGV[#ARGV] }')
const RUNS = 150 * LONGER

interface Rule {
  readonly limit: number
  readonly windowMs: number
}

type Step = { readonly stepUs: number; readonly count: number; readonly edit?: Rule | undefined }

describe('the take script', { skip: NO_REDIS }, () => {
  let server: RedisServer
  let client: ReturnType<typeof createClient>
  let sha: string
  before(async () => {
    server = await startRedis()
    client = createClient({ RESP: 2, socket: { host: '127.0.0.1', port: server.port } })
    await client.connect()
    sha = String(await client.sendCommand(['SCRIPT', 'LOAD', CLOCKED]))
  })
  after(async () => {
    client.destroy()
    await server.stop()
  })

  async function takeAt(us: number, key: string, { limit, windowMs }: Rule, count = 1): Promise<number[][]> {
    const keys = new Array<string>(count).fill(key)
    const rules = keys.map(() => `${limit} ${windowMs} 1`)
    const clock = [`${Math.floor(us / 1e6)}`, `${us % 1e6}`]
    const words = ['EVALSHA', sha, `${count}`, ...keys, ...rules, ...clock]
    const flat = (await client.sendCommand(words)) as unknown as number[]
    return keys.map((_, i) => flat.slice(2 * i, 2 * i + 2))
  }

  it('has one line that reads the clock', () => {
    assert.equal(TAKE_SCRIPT.split(READ_CLOCK).length, 2)
  })

  const windowMs = fc.constantFrom(1000, 2000, 60_000)
  // Steps that floating-point milliseconds hold exactly, so that the model rounds nothing.
  const stepUs = (max: number) => fc.integer({ min: 0, max }).map((n) => n * 125)

  async function compare(rule: Rule, steps: readonly Step[]): Promise<void> {
    await client.sendCommand(['FLUSHALL'])
    const room = new KeyBudget()
    const record = { id: 1, name: 'n', path: '/', methods: null, horizonMs: null }
    const model = new Counters({ ...record, ...rule }, room)
    room.divide([model])
    let us = 1_000_000_000
    let now = rule
    // Sent in one write, in this order, so no take waits for the reply to the take before.
    const decided: Promise<number[][]>[] = []
    const expected: number[][][] = []
    for (const { stepUs, count, edit } of steps) {
      if (edit !== undefined) {
        now = edit
        model.edit({ ...record, ...edit })
      }
      us += stepUs
      expected.push(
        Array.from({ length: count }, () => {
          const { allowed, remaining, resetSeconds } = model.take('k', us / 1000)
          return [allowed ? remaining : -1, resetSeconds]
        }),
      )
      decided.push(takeAt(us, 'k', now, count))
    }
    assert.deepEqual(await Promise.all(decided), expected)
  }

  it('decides as the log in memory does', async () => {
    const limits = fc.integer({ min: 1, max: 8 })
    const rule = fc.record({ limit: limits, windowMs })
    const steps = fc.array(fc.record({ stepUs: stepUs(6000), count: fc.integer({ min: 1, max: 4 }) }), {
      maxLength: 40,
    })
    await fc.assert(fc.asyncProperty(rule, steps, compare), { numRuns: RUNS })
  })

  it('decides as the slices in memory do', async () => {
    const rule = fc.record({ limit: fc.integer({ min: 1001, max: 1400 }), windowMs })
    const steps = fc.array(fc.record({ stepUs: stepUs(2000), count: fc.constantFrom(1, 3, 200, 400) }), {
      maxLength: 25,
    })
    await fc.assert(fc.asyncProperty(rule, steps, compare), { numRuns: RUNS / 3 })
  })

  it('forgets no hit when the limit is edited, between log and slices too', async () => {
    const limit = fc.constantFrom(1, 3, 999, 1000, 1001, 1200)
    const edit = fc.option(limit, { nil: undefined, freq: 3 })
    const steps = fc.array(
      fc.record({ stepUs: stepUs(1500), count: fc.constantFrom(1, 2, 120, 500), limit: edit }),
      { maxLength: 25 },
    )
    await fc.assert(
      fc.asyncProperty(limit, steps, async (first, edited) => {
        const at = (limit: number) => ({ limit, windowMs: 1000 })
        await compare(
          at(first),
          edited.map(({ limit, ...step }) => ({
            ...step,
            edit: limit === undefined ? undefined : at(limit),
          })),
        )
      }),
      { numRuns: RUNS },
    )
  })

  it('counts a take of several windows in all of them or in none, as memory does', async () => {
    const bound = fc.tuple(fc.constantFrom(1, 2, 5, 1001, 1003), fc.constantFrom(1000, 2000, 5000, 60_000))
    const bounds = fc.uniqueArray(bound, { minLength: 2, maxLength: 4, selector: ([, windowMs]) => windowMs })
    const steps = fc.array(
      fc.record({ stepUs: stepUs(8000), count: fc.constantFrom(1, 2, 400), limits: fc.option(bounds) }),
      { maxLength: 20 },
    )
    await fc.assert(
      fc.asyncProperty(bounds, fc.constantFrom(1, 1, 2, 700), steps, async (written, cost, taken) => {
        await client.sendCommand(['FLUSHALL'])
        const first = written.map(([limit, windowMs]) => [limit + cost - 1, windowMs] as const)
        let us = 1_000_000_000
        const limiter = new Limiter({ clock: () => us / 1000 })
        let row = rowWith(first, { cost })
        limiter.replace([row])
        const decided: Promise<unknown>[] = []
        const expected: number[][] = []
        for (const { stepUs, count, limits } of taken) {
          if (limits !== null) {
            const limit = (i: number) => (limits[i]?.[0] ?? 1) + cost - 1
            row = rowWith(
              first.map(([, windowMs], i) => [limit(i), windowMs]),
              { cost },
            )
            limiter.replace([row])
          }
          us += stepUs
          expected.push(Array.from({ length: count }, () => figures(limiter.take(row, 'k'))).flat())
          decided.push(takeTogether(us, row, count))
        }
        assert.deepEqual(await Promise.all(decided), expected)
      }),
      { numRuns: RUNS },
    )
  })

  const figures = ({ allowed, remaining, resetSeconds, next }: Take): number[] => [
    ...[allowed ? remaining : -1, resetSeconds],
    ...(next === undefined ? [] : figures(next)),
  ]

  async function takeTogether(us: number, row: LimitRow, count: number): Promise<unknown> {
    const windows = Array.from({ length: count }, () => windowsOf(row)).flat()
    const longestMs = Math.max(...windows.map(({ windowMs }) => windowMs))
    return client.sendCommand([
      ...['EVALSHA', sha, `${windows.length}`],
      ...windows.map(({ windowMs }) => (windowMs === longestMs ? '{k}' : `{k}:${windowMs}`)),
      ...windows.map(({ limit, windowMs, cost, next }) => `${next ? '-' : ''}${limit} ${windowMs} ${cost}`),
      ...[`${Math.floor(us / 1e6)}`, `${us % 1e6}`],
    ])
  }

  it('lets no more through than the windows in force allow, whichever came and went', async () => {
    const bound = fc.tuple(fc.constantFrom(1, 2, 3, 5), fc.constantFrom(1000, 2000, 5000, 60_000))
    const bounds = fc.uniqueArray(bound, { minLength: 1, maxLength: 4, selector: ([, windowMs]) => windowMs })
    const steps = fc.array(fc.record({ stepUs: stepUs(8000), edit: fc.option(bounds) }), { maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(bounds, steps, async (first, taken) => {
        await client.sendCommand(['FLUSHALL'])
        let [us, windows, forgottenUs] = [1_000_000_000, first, 0]
        const asked = taken.map(({ stepUs, edit }) => {
          us += stepUs
          if (edit !== null) {
            forgottenUs = Math.max(forgottenUs, us - 1000 * Math.max(...windows.map(([, ms]) => ms)))
            windows = edit
          }
          return { us, windows, forgottenUs, decided: takeTogether(us, rowWith(windows), 1) }
        })
        const hits: number[] = []
        for (const { us, windows, forgottenUs, decided } of asked) {
          const reply = (await decided) as number[]
          const isFull = (sinceUs: number) =>
            windows.some(
              ([limit, ms]) => hits.filter((at) => at > sinceUs && us - at < 1000 * ms).length >= limit,
            )
          const isRefused = windows.some((_, i) => reply[2 * i] === -1)
          assert.ok(isRefused ? isFull(0) : !isFull(forgottenUs), `${reply} after ${hits} at ${us}`)
          if (!isRefused) hits.push(us)
        }
      }),
      { numRuns: RUNS },
    )
  })

  it('begins a new window, or one that other gateways did not count, with the hits of the longest', async () => {
    await client.sendCommand(['FLUSHALL'])
    const [hour, minute] = [[1500, 3_600_000] as const, [3, 60_000] as const]
    const us = 50_000_000
    const both = rowWith([minute, hour])
    assert.deepEqual(await takeTogether(us, rowWith([minute]), 2), [2, 60, 1, 60])
    assert.deepEqual(await takeTogether(us + 1, both, 1), [0, 60, 1497, 3600])
    await takeTogether(us + 60_000_000, rowWith([hour]), 2)
    assert.deepEqual(await takeTogether(us + 60_000_001, both, 1), [0, 60, 1494, 3540])
    assert.equal(((await takeTogether(us + 60_000_002, both, 1)) as number[])[0], -1)
  })

  it('decides by the law of limits: several windows, rows beside each other, plans, costs, shadow mode, edits', async () => {
    await fc.assert(
      fc.asyncProperty(anyLaw, async (law) => {
        await client.sendCommand(['FLUSHALL'])
        let us = 0
        const send = async (call: StoreCall) => {
          const clock = [`${Math.floor(us / 1e6)}`, `${us % 1e6}`]
          const reply = await client.sendCommand(['EVALSHA', sha, ...call.args.slice(2), ...clock])
          call.done(reply as unknown as StoreReply)
        }
        const takes = new SharedTakes({
          breaker: { isOpen: false, send } as object as StoreBreaker,
          keys: new StoreKeys('law', 'key'),
          counts: newStoreCounts(),
          timers: REAL_TIMERS,
          isCluster: true,
        })
        await holdsLaw(law, {
          replace: () => undefined,
          take: ({ row, key, us: atUs, ...caller }) => {
            us = atUs
            return new Promise((resolve) =>
              takes.take(sharedRowOf(row), key, (take) => resolve(take ?? assert.fail('away')), caller),
            )
          },
        })
      }),
      { numRuns: RUNS },
    )
  })

  it('lets a key that it only converted expire', async () => {
    await client.sendCommand(['FLUSHALL'])
    const us = 50_000_000
    const minute = rowWith([
      [1, 2000],
      [5, 60_000],
    ])
    assert.deepEqual(await takeTogether(us, minute, 1), [0, 2, 4, 60])
    const more = rowWith([
      [1, 2000],
      [5000, 60_000],
    ])
    assert.deepEqual(await takeTogether(us, more, 1), [-1, 2, 4999, 60])
    assert.deepEqual(await client.sendCommand(['LRANGE', '{k}', '0', '-1']), ['0:0', `${us}:1`])
    assert.ok(Number(await client.sendCommand(['PTTL', '{k}'])) > 0)
    assert.deepEqual(await takeTogether(us, minute, 1), [-1, 2, 4, 60])
    assert.ok(Number(await client.sendCommand(['PTTL', '{k}'])) > 0)
  })

  it('never counts by a clock that went back', async () => {
    const rule = { limit: 2, windowMs: 1000 }
    assert.deepEqual(await takeAt(10_000_000, 'back', rule), [[1, 1]])
    assert.deepEqual(await takeAt(4_000_000, 'back', rule), [[0, 1]])
    assert.deepEqual(await takeAt(5_000_000, 'back', rule), [[-1, 1]], 'the first two count as of second 10')
    assert.deepEqual(await takeAt(10_999_999, 'back', rule), [[-1, 1]])
    assert.deepEqual(await takeAt(11_000_000, 'back', rule), [[1, 1]])
  })

  it('keeps every microsecond of the times of today', async () => {
    const us = 1_800_000_000_123_457
    const wide = { limit: 5000, windowMs: 60_000 }
    await takeAt(us, 'today', { limit: 5, windowMs: 60_000 })
    assert.deepEqual(await client.sendCommand(['LRANGE', 'today', '0', '-1']), [`${us}`])
    await takeAt(us, 'wide', wide)
    assert.deepEqual(await client.sendCommand(['LRANGE', 'wide', '0', '-1']), ['0:0', `${us}:1`])
  })

  it('holds at most limit times or a hundred slices of a key, and lets it expire after its window', async () => {
    const log = { limit: 10, windowMs: 2000 }
    const slices = { limit: 1_000_000, windowMs: 2000 }
    const lengths = Array.from({ length: 500 }, async (_, i) => {
      const us = 50_000_000 + i * 12_345
      const taken = [takeAt(us, 'log', log), takeAt(us, 'slices', slices, 3)]
      const held = ['log', 'slices'].map((key) => client.sendCommand(['LLEN', key]))
      await Promise.all(taken)
      return (await Promise.all(held)).map(Number) as [number, number]
    })
    for (const [times, slots] of await Promise.all(lengths)) assert.ok(times <= 10 && slots <= 102)
    for (const [key, rule] of [
      ['log', log],
      ['slices', slices],
    ] as const) {
      // Sent in one write, so that no time passes in between.
      const asked = [takeAt(60_000_000, key, rule), client.sendCommand(['PTTL', key])] as const
      const ttlMs = Number((await Promise.all(asked))[1])
      assert.ok(ttlMs > 2000 && ttlMs <= 3000, `${ttlMs}`)
    }
  })

  it('writes nothing when it refuses', async () => {
    const rule = { limit: 1, windowMs: 60_000 }
    await takeAt(1_000_000, 'full', rule)
    const offset = async () =>
      /rdb_changes_since_last_save:(\d+)/.exec(String(await client.sendCommand(['INFO', 'persistence'])))?.[1]
    const before = await offset()
    await takeAt(2_000_000, 'full', rule, 100)
    assert.equal(await offset(), before)
    await takeAt(1_000_000, 'gold', { limit: 1500, windowMs: 60_000 })
    const held = await offset()
    const beside = ['EVAL', CLOCKED, '2', 'gold', 'full', '-9 60000 1', '1 60000 1', '2', '0']
    assert.deepEqual(await client.sendCommand(beside), [8, 59, -1, 59])
    assert.equal(await offset(), held)
  })
})
