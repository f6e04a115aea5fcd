import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { EventLog } from './event-log.ts'
import { createSharedMemory, MAIN_SEAT } from './event-memory.ts'
import type { Command } from './worker-pool.test-support.ts'
import { type EndedWorker, WorkerPool, type WorkerPoolOptions } from './worker-pool.ts'

/** How often a test looks. */
const LOOK_MS = 5
/** A worker that has served so long is stable. */
const STABLE_MS = 5000
const SCRIPT = new URL('./worker-pool.test-support.ts', import.meta.url)

describe('the worker pool', () => {
  const pools: WorkerPool<string>[] = []
  afterEach(async () => {
    await Promise.all(pools.splice(0).map((pool) => pool.stop({ type: 'stop' }, 0)))
  })

  function poolOf(
    size: number,
    options: Partial<WorkerPoolOptions<string>> & { readonly data?: object } = {},
  ) {
    const memory = createSharedMemory(4096)
    const eventLog = new EventLog({ memory, seat: MAIN_SEAT, clock: Date.now, onLost: assert.fail })
    const ended: EndedWorker<string>[] = []
    const started: { readonly seat: number; readonly name: string }[] = []
    const waiting: { readonly count: number; readonly resolve: () => void }[] = []
    const pool = new WorkerPool<string>({
      size,
      script: SCRIPT,
      eventLog,
      configuration: (seat, name) => {
        started.push({ seat, name })
        return { memory, seat, ...options.data }
      },
      onEnd: (end) => {
        ended.push(end)
        for (const { count, resolve } of waiting) if (ended.length >= count) resolve()
      },
      ...options,
    })
    pools.push(pool)
    const ends = (count: number) =>
      ended.length >= count
        ? Promise.resolve()
        : new Promise<void>((resolve) => waiting.push({ count, resolve }))
    const post = (command: Command) => pool.post(command)
    return { pool, eventLog, ended, started, ends, post }
  }

  async function until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }

  it('starts all workers, each with its own seat', async () => {
    const { pool, started } = poolOf(3)
    assert.equal(pool.serving, 0)
    await pool.start()
    assert.equal(pool.serving, 3)
    assert.deepEqual(
      // Each begins when its thread has loaded the program.
      started.map(({ name }) => name).sort(),
      ['worker-1', 'worker-2', 'worker-3'],
    )
    assert.equal(new Set(started.map(({ seat }) => seat)).size, 3)
    assert.deepEqual(
      (await pool.collectReports()).toSorted(),
      started.map(({ seat }) => `of seat ${seat}`).toSorted(),
    )
  })

  it('fails to start when a worker cannot start', async () => {
    const { pool } = poolOf(2, { data: { failing: true } })
    await assert.rejects(pool.start(), /worker-\d ended before it served: Error: cannot begin/)
  })

  for (const [type, why] of [
    ['exit', /^exit code 3$/],
    ['throw', /^Error: a bug\n/],
  ] as const) {
    it(`replaces a worker that ends by ${type}, reports why, and reuses its seat`, async () => {
      const { pool, ended, started, ends, post } = poolOf(1)
      await pool.start()
      await pool.collectReports()
      post({ type })
      await ends(1)
      const [end] = ended
      assert.match(end?.why ?? '', why)
      assert.equal(end?.expected, false)
      assert.equal(end?.lastReport, `of seat ${started[0]?.seat}`)
      assert.ok((end?.threadId ?? 0) > 0)
      await until(() => pool.serving === 1)
      assert.deepEqual(started[1], started[0])
    })
  }

  it('replaces a worker that is out of memory', async () => {
    const { pool, ended, ends, post } = poolOf(1, { resourceLimits: { maxOldGenerationSizeMb: 32 } })
    await pool.start()
    post({ type: 'fill' })
    await ends(1)
    assert.match(ended[0]?.why ?? '', /memory/)
    await until(() => pool.serving === 1)
  })

  it('terminates and replaces a worker whose event loop is blocked', async () => {
    const { pool, ended, ends, post } = poolOf(1, { hungMs: 200 })
    await pool.start()
    post({ type: 'hang' })
    await ends(1)
    assert.match(ended[0]?.why ?? '', /event loop was blocked for \d+ ms/)
    await until(() => pool.serving === 1)
  })

  it('replaces a worker at once, and waits longer when its predecessor died early', async (t) => {
    const { setTimeout } = globalThis
    const waitsMs: number[] = []
    t.mock.method(globalThis, 'setTimeout', (run: () => void, ms: number) => {
      if (ms !== LOOK_MS && ms !== STABLE_MS) waitsMs.push(ms)
      // On a busy machine a worker must not become stable.
      return setTimeout(ms === STABLE_MS ? () => {} : run, ms)
    })
    const { pool, ends, post } = poolOf(1)
    await pool.start()
    for (const count of [1, 2, 3]) {
      post({ type: 'exit' })
      await ends(count)
      await until(() => pool.serving === 1)
    }
    assert.deepEqual(waitsMs, [0, 100, 200])
  })

  it('uses the last report of a worker that is too busy to report for a second', async (t) => {
    const { pool, post } = poolOf(1)
    await pool.start()
    const [report] = await pool.collectReports()
    post({ type: 'stay' })
    t.mock.timers.enable({ apis: ['setTimeout'] })
    let reports: string[] | undefined
    const collecting = pool.collectReports().then((collected) => {
      reports = collected
    })
    t.mock.timers.tick(999)
    await turn()
    assert.equal(reports, undefined)
    t.mock.timers.tick(1)
    await collecting
    assert.deepEqual(reports, [report])
    // Before the pool is stopped.
    t.mock.timers.reset()
  })

  it('stops when all workers have ended, and replaces none', async () => {
    const { pool, ended } = poolOf(2)
    await pool.start()
    await pool.stop({ type: 'stop' }, 60_000)
    assert.deepEqual(
      ended.map(({ expected, why }) => [expected, why]),
      [
        [true, 'exit code 0'],
        [true, 'exit code 0'],
      ],
    )
    assert.equal(pool.serving, 0)
  })

  it('terminates workers that do not stop in time', async () => {
    const { pool, ended, post } = poolOf(1)
    await pool.start()
    post({ type: 'stay' })
    await pool.stop({ type: 'stop' }, 50)
    assert.equal(ended[0]?.expected, false)
  })

  it('stops at once when it has no workers', async () => {
    await poolOf(1).pool.stop({ type: 'stop' }, 10_000)
  })
})
