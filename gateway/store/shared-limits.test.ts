import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Limiter } from '../limits/limiter.ts'
import { makeRow, rowWith } from '../limits/table/limit-row.test-support.ts'
import { type LimitRow, LimitTable } from '../limits/table/limit-table.ts'
import { SharedLimits } from './shared-limits.ts'
import type { TakeDone } from './shared-takes.ts'

const ROW = makeRow({
  name: 'x',
  path: '/api/x',
  limit: 3,
  purpose: 'x',
})

test('a fault of the local counts is thrown to its request alone, not to others that wait for the same reply', () => {
  const table = new LimitTable([ROW])
  const dones: TakeDone[] = []
  const limits = new SharedLimits(
    { find: table.find.bind(table), take: () => assert.fail('no counters'), close: () => undefined },
    { take: (_row, _key, done) => void dones.push(done) },
  )
  const row = table.find('/api/x', 'GET') ?? assert.fail()
  for (const reply of [undefined, { allowed: true, remaining: 1, resetSeconds: 1 }]) {
    const pending = limits.ask(row, 'caller')
    assert.equal(pending.take, undefined)
    let told = 0
    pending.whenKnown(() => told++)
    dones.pop()?.(reply)
    assert.equal(told, 1)
    assert.throws(() => pending.take, /no counters/)
  }
})

test('a row that is given another name goes on counting in the same place', () => {
  const identities: string[] = []
  const limits = new SharedLimits(
    { find: () => undefined, take: () => assert.fail(), close: () => undefined },
    { take: ({ identity }) => void identities.push(identity) },
  )
  for (const row of [ROW, { ...ROW, name: 'y' }, { ...ROW, methods: new Set(['GET']) }]) {
    limits.ask(new LimitTable([row]).find('/api/x', 'GET') ?? assert.fail(), 'caller')
  }
  const [first, renamed, narrowed] = identities
  assert.equal(renamed, first)
  assert.notEqual(narrowed, first)
})

test('a hit that the store let through is counted here in each window with room, a refused hit in none', () => {
  const row = rowWith([
    [1, 1000],
    [5, 60_000],
  ])
  const local = new Limiter({ clock: () => 1_000_000 })
  local.replace([row])
  const dones: TakeDone[] = []
  const limits = new SharedLimits(local, { take: (_row, _key, done) => void dones.push(done) })
  const reply = (first: boolean, second: boolean) => {
    const pending = limits.ask(row, 'a')
    const next = { allowed: second, remaining: 1, resetSeconds: 1 }
    dones.pop()?.({ allowed: first, remaining: 1, resetSeconds: 1, next })
    return pending.take?.next?.allowed
  }
  const counts = () => local.inForce().rows.map(([, counters]) => counters.countOf('a', 1_000_000))
  assert.deepEqual([reply(true, true), reply(true, true)], [true, true])
  assert.deepEqual(counts(), [1, 2])
  assert.deepEqual([reply(true, false), reply(false, true)], [false, true])
  assert.deepEqual(counts(), [1, 2])
})

test('without the store each row does what it says: denies, counts here, or lets pass uncounted', () => {
  const [local, allow] = [
    makeRow({ limit: 1 }),
    makeRow({ name: 'all', path: '/*', onStoreFailure: 'allow', isOverall: true }),
  ]
  const limiter = new Limiter({ clock: () => 1_000_000 })
  const away = (...rows: LimitRow[]) => {
    limiter.replace(rows)
    const limits = new SharedLimits(limiter, { take: (_row, _key, done) => done(undefined) })
    return limits.ask(limiter.find('/api/x', 'GET') ?? assert.fail(), 'a').take
  }
  const uncounted = { allowed: true, remaining: 0, resetSeconds: 1, uncounted: true }
  assert.deepEqual(away(local, allow), { allowed: true, remaining: 0, resetSeconds: 60, beside: uncounted })
  assert.equal(away(local, allow)?.allowed, false)
  assert.equal(away(local, { ...allow, onStoreFailure: 'deny' })?.unrecorded, true)
  assert.equal(away(local, { ...allow, onStoreFailure: 'deny', mode: 'shadow' })?.unrecorded, undefined)
  // Another process may be counting.
  limiter.close()
  assert.deepEqual(away(allow), uncounted)
})
