import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { makeRow } from '../limits/table/limit-row.test-support.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import type { SharedState } from '../process/shared-state.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import { commonClock } from './event-clock.ts'
import { EventLog } from './event-log.ts'
import { PrimaryState } from './primary-state.ts'
import { follow, publishRevoked } from './replication.ts'

function primaryState(t: TestContext) {
  const dataDir = mkdtempSync(join(tmpdir(), 'primary-state-'))
  const startup = {
    settings: { dataDir, authThrottle: { failures: 10, windowMs: 60_000 } },
    version: '',
    limits: { text: '', value: [] },
    log: pino({ level: 'silent' }),
  } as object as StartupConfiguration
  const watch = { fault: assert.fail, removed() {}, observe() {}, repeat() {} } as object as StoreWatch
  const state = new PrimaryState(startup, { watch, gatewayId: 'gateway' })
  t.after(() => {
    state.close()
    rmSync(dataDir, { recursive: true })
  })
  return { dataDir, state }
}

test('a session that ends in the last request of a worker is told to the process that takes over', (t) => {
  const { state } = primaryState(t)
  const { memory, originMs } = state.copy()
  const seat = state.eventLog.takeSeat() as number
  const worker = new EventLog({ memory, seat, clock: commonClock(originMs), onLost: assert.fail })
  const told: string[] = []
  state.tell((sid) => told.push(sid))
  worker.enter()
  publishRevoked(worker, 'last')
  worker.leave()
  state.leave()
  assert.deepEqual(told, ['last'])
})

test('a session that ended in the process before is written by the one that has the files', (t) => {
  const { dataDir, state } = primaryState(t)
  state.hear('before', false)
  state.hear('after', true)
  const file = readFileSync(join(dataDir, 'revocations.ndjson'), 'utf8')
  assert.match(file, /"before"/)
  assert.doesNotMatch(file, /"after"/)
  assert.deepEqual(
    state.copy().copy.revoked.map(([sid]) => sid),
    ['before', 'after'],
  )
})

test('the largest limit table is put in force on every thread, wherever the log stands', (t) => {
  const { state } = primaryState(t)
  const { memory, originMs } = state.copy()
  const seat = state.eventLog.takeSeat() as number
  const worker = new EventLog({ memory, seat, clock: commonClock(originMs), onLost: assert.fail })
  const received: (readonly LimitRow[])[] = []
  const nothing = {} as object as SharedState
  follow(worker, nothing, { table: (rows) => received.push(rows), segment() {}, durableHit() {} })
  for (const limit of [1, 2, 3, 4]) {
    const rows = Array.from({ length: 10_000 }, (_, i) =>
      makeRow({
        name: `n${i}`,
        path: `/api/${i}`,
        limit,
        window: '1m',
        windowMs: 60_000,
        purpose: 'é'.repeat(60),
      }),
    )
    state.replaceTable(rows)
    assert.deepEqual(state.copy().rows, rows)
    worker.catchUp()
    assert.deepEqual(received.at(-1), rows)
  }
  assert.equal(received.length, 4)
})
