import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { withoutSyncs } from '../audit/commit/power.test-support.ts'
import { LONGER } from '../e2e/long-runs.ts'
import { directory, Gateway, START_MS } from './gateway.test-support.ts'
import { Journal } from './journal/limit-journal.ts'
import { Limiter, steadyClock } from './limiter.ts'
import { makeRow } from './table/limit-row.test-support.ts'
import type { LimitRow } from './table/limit-table.ts'

const HOUR = 3_600_000

function row(changes: Partial<LimitRow> = {}): LimitRow {
  return makeRow({ name: 'login', path: '/api/login', limit: 2, ...changes })
}

/** What should be remembered of one row, told in the plainest way. */
interface Lineage {
  row: LimitRow
  forgottenMs: number
  sliced: boolean
  hits: Map<string, number[]>
}

/** The rule, written a second time without windows, rings, slices or files. */
class Model {
  lineages: Lineage[] = []

  replace(rows: readonly LimitRow[], now: number): void {
    const free = [...this.lineages]
    const places = rows.map((next) => takeOut(free, ({ row }) => place(row) === place(next)))
    this.lineages = rows.map((next, i) => {
      const old = places[i] ?? takeOut(free, ({ row }) => row.name === next.name)
      if (old === undefined) return { row: next, forgottenMs: -1, sliced: next.limit > 1000, hits: new Map() }
      const edited = old.row.windowMs !== next.windowMs
      const forgottenMs = edited ? Math.max(old.forgottenMs, now - old.row.windowMs) : old.forgottenMs
      return { row: next, forgottenMs, sliced: old.sliced || next.limit > 1000, hits: old.hits }
    })
  }

  /** What the new row's rule counts: hits that the windows before it still remembered, and its own. */
  counted(index: number, key: string, now: number): number[] {
    const { row, forgottenMs, hits } = this.lineages[index]!
    return (hits.get(key) ?? []).filter((at) => now - at < row.windowMs && at > forgottenMs)
  }

  allow(index: number, key: string, now: number): void {
    note(this.lineages[index]!.hits, key, now)
  }

  crash(): void {
    for (const { row, hits } of this.lineages) if (row.windowMs < HOUR) hits.clear()
  }
}

function note(hits: Map<string, number[]>, key: string, now: number): void {
  const times = hits.get(key)
  if (times === undefined) hits.set(key, [now])
  else times.push(now)
}

function place(row: LimitRow): string {
  return `${row.path} ${row.methods === undefined ? '*' : [...row.methods].sort()}`
}

function takeOut<T>(list: T[], wanted: (item: T) => boolean): T | undefined {
  const index = list.findIndex(wanted)
  return index === -1 ? undefined : list.splice(index, 1)[0]
}

const anyRow = fc.record({
  name: fc.constantFrom('a', 'b', 'c'),
  path: fc.constantFrom('/x', '/y'),
  methods: fc.constantFrom(undefined, new Set(['GET', 'POST']), new Set(['POST', 'GET']), new Set(['GET'])),
  limit: fc.constantFrom(1, 2, 3, 5, 1000, 1001),
  windowMs: fc.constantFrom(1000, 60_000, HOUR - 1000, HOUR, 2 * HOUR, 24 * HOUR),
})
const anyTable = fc
  .uniqueArray(anyRow, { minLength: 1, maxLength: 3, selector: (each) => each.name })
  .map((rows) => rows.map((each) => row(each)))
  .filter((rows) => new Set(rows.map(place)).size === rows.length)
const anyPause = fc.oneof(
  fc.constantFrom(0, 0, 0.25, 10, 599.75, 999.75, 1000, 30_000, 60_000, 60_000.25),
  fc.constantFrom(HOUR / 2, HOUR - 1000, HOUR - 0.25, HOUR, HOUR + 0.25, 2 * HOUR, 12 * HOUR, 24 * HOUR),
)
/** Half of the edits are small: a row's limit or window, its name, its methods, nothing. */
type Step =
  | { readonly do: 'take'; readonly row: number; readonly key: string; readonly times: number }
  | { readonly do: 'replace'; readonly table: LimitRow[] }
  | { readonly do: 'edit'; readonly row: number; readonly to: Partial<LimitRow> }
  | { readonly do: 'restart' | 'crash' }
  | { readonly do: 'pause'; readonly ms: number }

const anyIndex = fc.integer({ min: 0, max: 2 })
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant('take' as const),
      row: anyIndex,
      key: fc.constantFrom('p:alice', 'p:bob', 'a:"\n\\\u2028\ud800'),
      times: fc.constantFrom(1, 1, 1, 1, 2, 2, 3, 600),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('pause' as const), ms: anyPause }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('replace' as const), table: anyTable }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('edit' as const),
      row: anyIndex,
      to: fc.oneof(
        anyRow.map(({ limit }) => ({ limit })),
        anyRow.map(({ windowMs }) => ({ windowMs })),
        fc.constantFrom({ name: 'd' }, { methods: new Set(['PUT']) }, {}),
      ),
    }),
  },
  { weight: 2, arbitrary: fc.constantFrom<Step>({ do: 'restart' }, { do: 'crash' }) },
)

/** Runs a schedule on a gateway and on the model, and compares every take. @param skip numbers of takes to leave out */
function run(table: LimitRow[], steps: readonly Step[], skip: ReadonlySet<number> = new Set()): boolean[] {
  const gateway = new Gateway()
  const model = new Model()
  const outcomes: boolean[] = []
  let rows = table
  const replace = (next: LimitRow[]): void => {
    rows = next
    gateway.limiter.replace(rows)
    model.replace(rows, gateway.nowMs)
  }
  try {
    replace(rows)
    for (const step of steps) {
      if (step.do === 'take') {
        for (let i = 0; i < step.times; i++) {
          const skipped = skip.has(outcomes.length)
          outcomes.push(!skipped && takeBeside(gateway, model, step.row % rows.length, step.key))
        }
      } else if (step.do === 'pause') gateway.nowMs += step.ms
      else if (step.do === 'replace') replace(step.table)
      else if (step.do === 'edit') {
        const next = rows.map((each, i) => (i === step.row % rows.length ? { ...each, ...step.to } : each))
        if (new Set(next.map(place)).size === next.length) replace(next)
      } else {
        gateway[step.do]()
        if (step.do === 'crash') model.crash()
        gateway.limiter.replace(rows)
      }
    }
  } finally {
    gateway.close()
  }
  return outcomes
}

function takeBeside(gateway: Gateway, model: Model, index: number, key: string): boolean {
  const { row, sliced } = model.lineages[index]!
  const { nowMs: now } = gateway
  const counted = model.counted(index, key, now)
  const take = gateway.limiter.take(row, key)
  if (take.allowed) {
    assert.ok(counted.length < row.limit, `let ${counted.length + 1} through, limit ${row.limit}`)
    model.allow(index, key, now)
  }
  assert.ok(Number.isInteger(take.resetSeconds) && take.resetSeconds >= 1)
  if (sliced) return take.allowed
  const allowed = counted.length < row.limit
  const leaves = allowed ? (counted[0] ?? now) : counted[counted.length - row.limit]!
  assert.deepEqual(take, {
    allowed,
    remaining: allowed ? row.limit - counted.length - 1 : 0,
    resetSeconds: Math.ceil((row.windowMs - (now - leaves)) / 1000),
  })
  return take.allowed
}

describe('the limiter, over any schedule of takes, pauses, edits, restarts and crashes', () => {
  test('obeys the rule of the row in force for every hit still remembered, and is exact up to a thousand', (t) => {
    withoutSyncs(t)
    fc.assert(
      fc.property(anyTable, fc.array(anyStep, { maxLength: 60, size: 'max' }), (table, steps) => {
        run(table, steps)
      }),
      { numRuns: LONGER === 1 ? 30 : 60 * LONGER },
    )
  })

  test('lets the same hits through when the refused ones are left out', (t) => {
    withoutSyncs(t)
    fc.assert(
      fc.property(anyTable, fc.array(anyStep, { maxLength: 60, size: 'max' }), (table, steps) => {
        const outcomes = run(table, steps)
        const refused = new Set(outcomes.flatMap((allowed, i) => (allowed ? [] : [i])))
        assert.deepEqual(run(table, steps, refused), outcomes)
      }),
      { numRuns: 30 * LONGER },
    )
  })

  test('never lets more than the limit through in any half-open interval, whatever restarts and crashes there are', (t) => {
    withoutSyncs(t)
    const anyUnedited = anyStep.filter((step) => step.do !== 'replace' && step.do !== 'edit')
    fc.assert(
      fc.property(
        fc.array(anyUnedited, { maxLength: 80, size: 'max' }),
        fc.constantFrom(1, 3, 1001),
        (steps, limit) => {
          const gateway = new Gateway()
          const transfer = row({ windowMs: HOUR, limit })
          const hits = new Map<string, number[]>()
          gateway.limiter.replace([transfer])
          for (const step of steps) {
            if (step.do === 'pause') gateway.nowMs += step.ms
            else if (step.do === 'take') {
              for (let i = 0; i < step.times; i++) {
                if (gateway.limiter.take(transfer, step.key).allowed) note(hits, step.key, gateway.nowMs)
              }
            } else if (step.do === 'restart' || step.do === 'crash') {
              gateway[step.do]()
              gateway.limiter.replace([transfer])
            }
          }
          gateway.close()
          for (const times of hits.values()) {
            for (const [i, last] of times.entries()) {
              // The hit `limit` places before must have left when this one came.
              const before = times[i - limit]
              assert.ok(before === undefined || last - before >= HOUR)
            }
          }
        },
      ),
      { numRuns: 30 * LONGER },
    )
  })
})

describe('the limiter', () => {
  test('counts under the row in force for an exchange that still holds the row before it', () => {
    const gateway = new Gateway()
    const [before, now] = [row({ limit: 1 }), row({ limit: 3 })]
    gateway.limiter.replace([before])
    gateway.limiter.take(before, 'a')
    gateway.limiter.replace([now])
    assert.deepEqual(gateway.limiter.take(before, 'a'), { allowed: true, remaining: 1, resetSeconds: 60 })
    assert.deepEqual(gateway.limiter.take(now, 'a'), { allowed: true, remaining: 0, resetSeconds: 60 })
    gateway.close()
  })

  test('counts nothing while it is closed, and keeps all counts when it is opened again', () => {
    const gateway = new Gateway()
    const login = row({ limit: 3, windowMs: HOUR })
    const take = () => gateway.limiter.take(login, 'a')
    gateway.limiter.replace([login])
    assert.equal(take().remaining, 2)
    gateway.limiter.close()
    assert.deepEqual(take(), { allowed: false, remaining: 0, resetSeconds: 1, unrecorded: true })
    gateway.limiter.reopen()
    assert.deepEqual([take().remaining, take().remaining, take().allowed], [1, 0, false])
    gateway.restart()
    gateway.limiter.replace([login])
    assert.equal(take().allowed, false)
    gateway.close()
  })

  test('writes a row that came while it was closed into the journal once it is opened again', () => {
    const gateway = new Gateway()
    const [login, other] = [row({ windowMs: HOUR }), row({ name: 'other', path: '/other', windowMs: HOUR })]
    gateway.limiter.replace([login])
    gateway.limiter.close()
    gateway.limiter.replace([login, other])
    gateway.limiter.reopen()
    gateway.limiter.take(other, 'a')
    gateway.crash()
    gateway.limiter.replace([login, other])
    assert.equal(gateway.limiter.take(other, 'a').remaining, 0)
    gateway.close()
  })

  test('works without a journal, and then forgets with the process', () => {
    const limiter = new Limiter({ clock: () => START_MS })
    const rows = [row({ windowMs: HOUR, limit: 1 }), row({ name: 'b', path: '/b' })]
    limiter.replace(rows)
    assert.equal(limiter.take(rows[0]!, 'a').allowed, true)
    assert.equal(limiter.take(rows[0]!, 'a').allowed, false)
    limiter.take(rows[1]!, 'a')
    const keys = () => limiter.inForce().rows.map(([, counters]) => counters.size)
    assert.deepEqual(keys(), [1, 1])
    limiter.replace([row({ windowMs: 60_000, limit: 1 })])
    assert.deepEqual(keys(), [1])
    limiter.close()
  })

  test('refuses a caller that it has no room to count', () => {
    const limiter = new Limiter({ clock: () => START_MS, maxKeys: 2 })
    const login = row()
    limiter.replace([login])
    assert.deepEqual(
      ['a', 'b', 'c', 'd'].map((key) => limiter.take(login, key).allowed),
      [true, true, false, false],
    )
  })

  test('does not count for a row that was never in the table', () => {
    const gateway = new Gateway()
    assert.throws(() => gateway.limiter.take(row(), 'a'), /"login" was never in the table/)
    gateway.close()
  })

  test('keeps the counts of a short window over a stop, and not over a later crash', () => {
    const gateway = new Gateway()
    const login = row({ limit: 1 })
    gateway.limiter.replace([login])
    gateway.limiter.take(login, 'a')
    gateway.restart()
    gateway.limiter.replace([login])
    assert.equal(gateway.limiter.take(login, 'a').allowed, false)
    assert.deepEqual(
      readdirSync(gateway.directory).filter((name) => name.startsWith('snapshot')),
      [],
    )
    gateway.crash()
    gateway.limiter.replace([login])
    assert.equal(gateway.limiter.take(login, 'a').allowed, true)
    gateway.close()
  })

  test('keeps a snapshot that no table has taken up yet', () => {
    const gateway = new Gateway()
    const login = row({ limit: 1 })
    gateway.limiter.replace([login])
    gateway.limiter.take(login, 'a')
    gateway.restart()
    gateway.crash()
    gateway.restart()
    gateway.limiter.replace([login])
    assert.equal(gateway.limiter.take(login, 'a').allowed, false)
    gateway.close()
  })

  test('carries counts from one row to its successor when the table was edited while it was stopped', () => {
    const gateway = new Gateway()
    const transfer = row({ name: 'transfer', path: '/api/transfer', limit: 1, windowMs: HOUR })
    gateway.limiter.replace([transfer])
    gateway.limiter.take(transfer, 'a')
    gateway.crash()
    const renamed = { ...transfer, name: 'payments', windowMs: 2 * HOUR }
    gateway.limiter.replace([renamed])
    gateway.nowMs += HOUR
    assert.equal(gateway.limiter.take(renamed, 'a').allowed, false)
    gateway.close()
  })

  test('goes on counting after a start whose clock was set back to before the edit of a window', () => {
    const gateway = new Gateway()
    const [short, long] = [row({ limit: 2 }), row({ limit: 2, windowMs: HOUR })]
    gateway.limiter.replace([short])
    gateway.limiter.replace([long])
    gateway.limiter.take(long, 'a')
    gateway.nowMs -= HOUR
    gateway.restart()
    gateway.limiter.replace([long])
    const allowed = ['a', 'a', 'b', 'b', 'b'].map((key) => gateway.limiter.take(long, key).allowed)
    assert.deepEqual(allowed, [true, false, true, true, false])
    gateway.close()
  })

  test('makes the hits of a short window safe from a crash when an edit makes it an hour', () => {
    const gateway = new Gateway()
    const short = row({ limit: 2 })
    gateway.limiter.replace([short])
    gateway.limiter.take(short, 'a')
    gateway.limiter.take(short, 'a')
    const long = row({ limit: 2, windowMs: HOUR })
    gateway.limiter.replace([long])
    gateway.crash()
    gateway.limiter.replace([long])
    assert.equal(gateway.limiter.take(long, 'a').allowed, false)
    gateway.nowMs += HOUR
    assert.equal(gateway.limiter.take(long, 'a').remaining, 1)
    gateway.close()
  })

  test('counts no hit twice when a window changes to a minute and back to an hour, with stops', () => {
    const gateway = new Gateway()
    const [long, short] = [row({ limit: 9, windowMs: HOUR }), row({ limit: 9 })]
    gateway.limiter.replace([long])
    gateway.limiter.take(long, 'a')
    for (const next of [short, long, short, long]) {
      gateway.limiter.replace([next])
      gateway.restart()
      gateway.limiter.replace([next])
    }
    assert.equal(gateway.limiter.take(long, 'a').remaining, 7)
    gateway.close()
  })
})

test('a limiter that is killed with SIGKILL has every hit of an hour that it answered, on the next start', async (context) => {
  const limits = directory()
  const transfer = row({ windowMs: HOUR, limit: 1_000 })
  const script = `
    const { Journal } = await import(${JSON.stringify(new URL('./journal/limit-journal.ts', import.meta.url).href)})
    const { Limiter } = await import(${JSON.stringify(new URL('./limiter.ts', import.meta.url).href)})
    const { steadyClock } = await import(${JSON.stringify(new URL('./limiter.ts', import.meta.url).href)})
    const { writeSync } = await import('node:fs')
    const reports = { ignored: console.error, failed: console.error }
    const journal = new Journal({ directory: ${JSON.stringify(limits)}, reports })
    const limiter = new Limiter({ clock: steadyClock(), journal })
    const row = ${JSON.stringify(transfer)}
    limiter.replace([row])
    for (const end = Date.now() + 20_000; Date.now() < end; ) if (limiter.take(row, 'p:alice').allowed) writeSync(1, '.')
  `
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  context.after(() => child.kill('SIGKILL'))
  let answered = 0
  child.stdout.on('data', (dots: Buffer) => {
    answered += dots.length
    if (answered >= 100) child.kill('SIGKILL')
  })
  const [, signal] = await once(child, 'close')
  assert.equal(signal, 'SIGKILL')
  assert.ok(answered >= 100)
  const journal = new Journal({
    directory: limits,
    reports: { ignored: (what) => assert.fail(what.file), failed: (error) => assert.fail(error) },
  })
  const limiter = new Limiter({ clock: Date.now, journal })
  const roomy = { ...transfer, limit: 100_000 }
  limiter.replace([roomy])
  const counted = roomy.limit - 1 - limiter.take(roomy, 'p:alice').remaining
  // One hit may have been taken that the child had no time to answer.
  assert.ok(counted === answered || counted === answered + 1, `${counted} kept of ${answered}`)
  limiter.close()
})

test('the steady clock tells epoch milliseconds and does not follow a wall clock that steps', (context) => {
  const clock = steadyClock()
  const beforeMs = Date.now()
  const first = clock()
  assert.ok(first > beforeMs - 100 && first < Date.now() + 100)
  context.mock.method(Date, 'now', () => 0)
  const second = clock()
  assert.ok(second >= first && second - first < 10_000)
})
