import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { EventLog } from './event-log.ts'
import { createSharedMemory, MAIN_SEAT } from './event-memory.ts'
import type { Command } from './worker-pool.test-support.ts'
import { type Ended, WorkerPool, type WorkerPoolOptions } from './worker-pool.ts'

const SCRIPT = new URL('./worker-pool.test-support.ts', import.meta.url)

describe('a pool', () => {
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
    const ended: Ended<string>[] = []
    const began: { readonly seat: number; readonly name: string }[] = []
    const waiting: { readonly count: number; readonly resolve: () => void }[] = []
    const pool = new WorkerPool<string>({
      size,
      script: SCRIPT,
      eventLog,
      begin: (seat, name) => {
        began.push({ seat, name })
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
    return { pool, eventLog, ended, began, ends, post }
  }

  async function until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5))
  }

  it('serves when all of its threads do, each with a seat of its own', async () => {
    const { pool, began } = poolOf(3)
    assert.equal(pool.serving, 0)
    await pool.start()
    assert.equal(pool.serving, 3)
    assert.deepEqual(
      began.map(({ name }) => name),
      ['worker-1', 'worker-2', 'worker-3'],
    )
    assert.equal(new Set(began.map(({ seat }) => seat)).size, 3)
    assert.deepEqual((await pool.ask()).toSorted(), began.map(({ seat }) => `of seat ${seat}`).toSorted())
  })

  it('does not begin when one of its threads cannot', async () => {
    const { pool } = poolOf(2, { data: { failing: true } })
    await assert.rejects(pool.start(), /worker-\d ended before it served: Error: cannot begin/)
  })

  for (const [type, why] of [
    ['exit', /^exit code 3$/],
    ['throw', /^Error: a bug\n/],
  ] as const) {
    it(`replaces a thread that ends by ${type}, says why, and gives its seat on`, async () => {
      const { pool, ended, began, ends, post } = poolOf(1)
      await pool.start()
      await pool.ask()
      post({ type })
      await ends(1)
      const [end] = ended
      assert.match(end?.why ?? '', why)
      assert.equal(end?.expected, false)
      assert.equal(end?.lastAnswer, `of seat ${began[0]?.seat}`)
      assert.ok((end?.threadId ?? 0) > 0)
      await until(() => pool.serving === 1)
      assert.deepEqual(began[1], began[0])
    })
  }

  it('replaces a thread that is out of memory, while the others go on', async () => {
    const { pool, ended, ends, post } = poolOf(1, { resourceLimits: { maxOldGenerationSizeMb: 32 } })
    await pool.start()
    post({ type: 'fill' })
    await ends(1)
    assert.match(ended[0]?.why ?? '', /memory/)
    await until(() => pool.serving === 1)
  })

  it('ends and replaces a thread that does not turn its loop', async () => {
    const { pool, ended, ends, post } = poolOf(1, { hungMs: 200 })
    await pool.start()
    post({ type: 'hang' })
    await ends(1)
    assert.match(ended[0]?.why ?? '', /did not turn its loop for \d+ ms/)
    await until(() => pool.serving === 1)
  })

  it('replaces at once the first time, and waits when what it replaced did not last', async () => {
    const firstWaits: number[] = []
    for (let repeated = 0; repeated < 4; repeated++) {
      const { pool, ends, post } = poolOf(1)
      await pool.start()
      for (const [count, leastMs] of [
        [1, 0],
        [2, 100],
        [3, 200],
      ] as const) {
        post({ type: 'exit' })
        await ends(count)
        const diedAtMs = performance.now()
        await until(() => pool.size > 0)
        const waitedMs = performance.now() - diedAtMs
        // A timer counts from the beginning of the turn in which it is set, which joins the thread that has ended.
        assert.ok(waitedMs >= 0.8 * leastMs, `${count}: ${waitedMs}`)
        if (count === 1) firstWaits.push(waitedMs)
        await until(() => pool.serving === 1)
      }
    }
    // The shortest of some: a machine under load takes its time by itself.
    assert.ok(Math.min(...firstWaits) < 95, String(firstWaits))
  })

  it('takes the last answer of a thread that is too busy to answer', async () => {
    const { pool, post } = poolOf(1)
    await pool.start()
    const [answer] = await pool.ask()
    post({ type: 'stay' })
    const askedAtMs = performance.now()
    assert.deepEqual(await pool.ask(), [answer])
    assert.ok(performance.now() - askedAtMs < 3000)
  })

  it('stops when all have ended as they were told, and replaces nobody', async () => {
    const { pool, ended } = poolOf(2)
    await pool.start()
    await pool.stop({ type: 'stop' }, 10_000)
    assert.deepEqual(
      ended.map(({ expected, why }) => [expected, why]),
      [
        [true, 'exit code 0'],
        [true, 'exit code 0'],
      ],
    )
    assert.equal(pool.serving, 0)
  })

  it('ends those that do not stop in time', async () => {
    const { pool, ended, post } = poolOf(1)
    await pool.start()
    post({ type: 'stay' })
    await pool.stop({ type: 'stop' }, 50)
    assert.equal(ended[0]?.expected, false)
  })

  it('that has nobody stops at once', async () => {
    await poolOf(1).pool.stop({ type: 'stop' }, 10_000)
  })
})
