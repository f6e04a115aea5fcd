import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { pino } from 'pino'
import { LONGER } from '../e2e/long-runs.ts'
import { Journal } from '../limits/journal/limit-journal.ts'
import { Limiter } from '../limits/limiter.ts'
import { makeRow } from '../limits/table/limit-row.test-support.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import { PrimaryState } from './primary-state.ts'
import type { Hammering, Task } from './replication.test-support.ts'

const HOUR_MS = 3_600_000
const NO_WATCH = { fault() {}, removed() {}, observe() {}, repeat() {} } as Partial<StoreWatch> as StoreWatch
const THREADS = 3

function row(name: string, limit: number, windowMs: number): LimitRow {
  return makeRow({
    name,
    path: `/${name}`,
    limit,
    window: `${windowMs}ms`,
    windowMs,
    purpose: '',
  })
}

interface Thread {
  readonly worker: Worker
  readonly seat: number
  ask(task: Task): Promise<unknown>
}

describe('replicated state', () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-'))
  const settings = { dataDir: dir, authThrottle: { failures: 10, windowMs: 60_000 } }
  const startup = {
    settings,
    version: '',
    limits: { text: '', value: [row('first', 5, HOUR_MS)] },
    log: pino({ level: 'silent' }),
  } as object as StartupConfiguration
  let primary: PrimaryState
  const threads: Thread[] = []

  async function launch(): Promise<Thread> {
    const seat = primary.eventLog.takeSeat() ?? -1
    const worker = new Worker(new URL('./replication.test-support.ts', import.meta.url), {
      workerData: { seat, settings, ...primary.copy() },
    })
    await once(worker, 'message')
    const thread = {
      worker,
      seat,
      ask: async (task: Task) => {
        worker.postMessage(task)
        return (await once(worker, 'message'))[0]
      },
    }
    threads.push(thread)
    return thread
  }

  const askAll = (task: Task) => Promise.all(threads.map((thread) => thread.ask(task)))
  const hammer = async (hammering: Hammering) => {
    const reports = (await askAll({ task: 'hammer', ...hammering })) as Record<string, number[]>[]
    const all: Record<string, number[]> = {}
    for (const report of reports) {
      for (const [name, times] of Object.entries(report)) {
        all[name] ??= []
        all[name].push(...times)
      }
    }
    for (const times of Object.values(all)) times.sort((a, b) => a - b)
    return all
  }
  /** Resolves when it is in force: a thread that holds the lock delays it. */
  const putTable = (rows: readonly LimitRow[]) => {
    primary.replaceTable(rows)
    return new Promise<void>((resolve) => primary.eventLog.whenFree(resolve))
  }
  /** Asserts that all copies are equal. @returns what they hold */
  const commonState = async () => {
    const [first, ...others] = await askAll({ task: 'state', atMs: Number.POSITIVE_INFINITY })
    for (const other of others) assert.deepEqual(other, first)
    return first as { readonly hits: readonly string[] }
  }

  before(async () => {
    primary = new PrimaryState(startup, { watch: NO_WATCH, gatewayId: 'gateway' })
    for (let i = 0; i < THREADS; i++) await launch()
  })
  after(async () => {
    await Promise.all(threads.map(({ worker }) => worker.terminate()))
    rmSync(dir, { recursive: true, force: true })
  })

  it('admits no more than the limit in any window', async () => {
    let run = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 2, max: 40 })), {
          minLength: 1,
          maxLength: 3,
        }),
        async (laws) => {
          run++
          const rows = laws.map(([limit, windowMs], index) => row(`w${run}-${index}`, limit, windowMs))
          await putTable(rows)
          const all = await hammer({ keys: ['p:alice', 'p:bø b'], forMs: 60, least: 100 })
          for (const [index, [limit, windowMs]] of laws.entries()) {
            const lists = Object.entries(all).filter(([name]) => name.startsWith(`w${run}-${index} `))
            assert.ok(lists.length > 0)
            for (const [name, times] of lists) {
              for (let i = limit; i < times.length; i++) {
                const gapMs = (times[i] as number) - (times[i - limit] as number)
                assert.ok(gapMs >= windowMs, `${name}: ${limit + 1} within ${gapMs} of ${windowMs} ms`)
              }
            }
          }
        },
      ),
      { numRuns: 12 * LONGER, endOnFailure: true },
    )
  })

  it('admits exactly the limit under load, and all copies are equal afterwards', async () => {
    await putTable([row('log', 40, HOUR_MS), row('sliced', 1500, HOUR_MS), row('brief', 70, HOUR_MS - 1)])
    const all = await hammer({ keys: ['p:alice', 'a:192.0.2.1', 'p:\ud800'], forMs: 400, least: 2000 })
    const counts = Object.fromEntries(Object.entries(all).map(([name, times]) => [name, times.length]))
    for (const [name, count] of Object.entries(counts)) {
      const limit = { log: 40, sliced: 1500, brief: 70 }[name.split(' ')[0] as string]
      assert.equal(count, limit, name)
    }
    assert.ok(Object.keys(counts).length >= 3)
    await commonState()
  })

  it('changes the limit table without losing or inventing a hit', async () => {
    await putTable([row('swap', 50, HOUR_MS), row('form', 1500, HOUR_MS)])
    const hammering = hammer({ keys: ['p:one', 'p:two'], forMs: 500, changes: 3, least: 200 })
    for (const [limit, form] of [
      [60, 900],
      [55, 2000],
      [80, 950],
    ] as const) {
      await new Promise((resolve) => setTimeout(resolve, 80))
      await putTable([row('swap', limit, HOUR_MS), row('form', form, HOUR_MS)])
    }
    const all = await hammering
    const state = await commonState()
    const swapped = Object.entries(all).filter(([name]) => name.startsWith('swap '))
    assert.ok(swapped.length > 0)
    for (const [name, times] of swapped) assert.equal(times.length, 80, name)
    const allowed = Object.values(all).reduce((sum, times) => sum + times.length, 0)
    const held = state.hits.reduce((sum, hit) => sum + Number(hit.split(' ').at(-1)), 0)
    assert.equal(held, allowed)
  })

  it('accepts one of many copies of a message, also when a thread starts later', async () => {
    const messages = Array.from({ length: 200 }, (_, index) => `message ${index}`)
    for (const memory of ['proofs', 'acceptedWebhooks'] as const) {
      const passed = (await askAll({ task: 'replay', memory, messages })).flat()
      assert.deepEqual(passed.toSorted(), messages.toSorted())
      const late = await launch()
      assert.deepEqual(await late.ask({ task: 'replay', memory, messages }), [])
    }
    const [header, ...lines] = readFileSync(join(dir, 'webhooks.ndjson'), 'utf8').trim().split('\n')
    assert.equal(header, '{"format":"webhooks","version":1}')
    assert.equal(lines.length, messages.length)
  })

  it('refuses a revoked session in every thread at once, also in one that starts later', async () => {
    const [first] = threads as [Thread]
    await first.ask({ task: 'revoke', sid: 'session-1' })
    assert.deepEqual(new Set(await askAll({ task: 'isRevoked', sid: 'session-1' })), new Set([true]))
    assert.deepEqual(new Set(await askAll({ task: 'isRevoked', sid: 'session-2' })), new Set([false]))
    const late = await launch()
    assert.equal(await late.ask({ task: 'isRevoked', sid: 'session-1' }), true)
    assert.match(readFileSync(join(dir, 'revocations.ndjson'), 'utf8'), /"session-1"/)
  })

  it('throttles a caller by the failures in all threads', async () => {
    const [first, second] = threads as [Thread, Thread]
    const startMs = performance.now()
    /** Whole seconds that are left of the minute. */
    const leastSeconds = () => 59 - (performance.now() - startMs) / 1000
    await first.ask({ task: 'guess', key: 'a:192.0.2.9', times: 6 })
    await second.ask({ task: 'guess', key: 'a:192.0.2.9', times: 3 })
    assert.deepEqual(new Set(await askAll({ task: 'blocked', key: 'a:192.0.2.9' })), new Set([undefined]))
    await first.ask({ task: 'guess', key: 'a:192.0.2.9', times: 1 })
    for (const seconds of await askAll({ task: 'blocked', key: 'a:192.0.2.9' })) {
      assert.ok(Number(seconds) >= leastSeconds(), String(seconds))
    }
    const late = await launch()
    const seconds = await late.ask({ task: 'blocked', key: 'a:192.0.2.9' })
    assert.ok(Number(seconds) >= leastSeconds(), String(seconds))
  })

  it('continues when a thread dies within a step, and its replacement has every count', async () => {
    await putTable([row('dead', 30, HOUR_MS)])
    const doomed = threads.shift() as Thread
    await doomed.ask({ task: 'hammer', keys: ['p:before'], forMs: 5, least: 60 })
    const ended = once(doomed.worker, 'exit')
    await doomed.ask({ task: 'dieWithin' })
    await ended
    primary.eventLog.freeSeat(doomed.seat)
    await launch()
    const all = await hammer({ keys: ['p:before', 'p:after'], forMs: 50, least: 60 })
    assert.equal(all['dead p:before'], undefined)
    assert.equal(all['dead p:after']?.length, 30)
    await commonState()
  })

  it('leaves every durable hit to the next run', async () => {
    const state = await commonState()
    await Promise.all(threads.splice(0).map(({ worker }) => worker.terminate()))
    primary.close()
    const journal = new Journal({
      directory: join(dir, 'limits'),
      // Hits of earlier tables are ignored; no line may be damaged.
      reports: { ignored: ({ damagedLines }) => assert.equal(damagedLines, 0), failed: assert.fail },
    })
    const next = new Limiter({ clock: Date.now, journal })
    const hits = [...next.copy().hits]
    assert.equal(hits.length, state.hits.length)
    next.close()
  })
})
