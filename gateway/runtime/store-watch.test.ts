import assert from 'node:assert/strict'
import { it } from 'node:test'
import { pino } from 'pino'
import { createMetrics, type Metrics } from '../admin/metrics.ts'
import { countRoundTrip, newStoreCounts } from '../store/store-counts.ts'
import { StoreWatch } from './store-watch.ts'

function watching(now?: () => number) {
  const lines: { level: number; msg: string; store: string; cause?: string }[] = []
  const records: { type: string; timestamp: string; store: string; cause?: string; since?: string }[] = []
  const metrics = createMetrics({ version: '1.2.3' })
  const watch = new StoreWatch({
    ...(now && { now }),
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    metrics,
    trail: { settle: (record: string) => void records.push(JSON.parse(record)) },
  })
  return { watch, metrics, lines, records }
}

async function storeLines(metrics: Metrics): Promise<string[]> {
  return (await metrics.expose()).split('\n').filter((line) => line.startsWith('gateway_store_'))
}

it('a shared store that goes away and comes back has one log line and one record for each', () => {
  const { watch, lines, records } = watching()
  watch.away('no reply within 25 ms')
  watch.away('no reply within 25 ms')
  watch.observe('shared', true)
  watch.observe('shared', true)
  assert.deepEqual(
    lines.map(({ msg, store, cause }) => ({ msg, store, cause })),
    [
      { msg: 'the shared store is away', store: 'shared', cause: 'no reply within 25 ms' },
      { msg: 'the shared store responds again', store: 'shared', cause: undefined },
    ],
  )
  assert.deepEqual(
    records.map(({ type, store, cause }) => ({ type, store, cause })),
    [
      { type: 'STORE_DEGRADED', store: 'shared', cause: 'no reply within 25 ms' },
      { type: 'STORE_RESTORED', store: 'shared', cause: undefined },
    ],
  )
  watch.away('Socket closed unexpectedly')
  assert.equal(records.at(-1)?.cause, 'Socket closed unexpectedly')
})

it('connections to a store that fail again and again are one line until the cause changes', async () => {
  const { watch, metrics, lines, records } = watching()
  for (let tries = 0; tries < 100; tries++) watch.fault('shared', 'connect ECONNREFUSED')
  watch.fault('shared', 'WRONGPASS invalid username-password pair or user is disabled.')
  assert.deepEqual(
    lines.map(({ cause }) => cause),
    ['connect ECONNREFUSED', 'WRONGPASS invalid username-password pair or user is disabled.'],
  )
  assert.deepEqual(records, [])
  assert.match(await metrics.expose(), /^gateway_store_write_errors_total\{store="shared"\} 101$/m)
})

it('a gateway without a shared store has no metric of it', async () => {
  const { watch, metrics } = watching()
  watch.observe('limits', true)
  assert.deepEqual(await storeLines(metrics), [
    'gateway_store_writable{store="limits"} 1',
    'gateway_store_write_errors_total{store="limits"} 0',
  ])
})

it('all metrics of a shared store are there from the moment it is configured, and say what it counts', async () => {
  const { watch, metrics } = watching()
  const state = { counts: newStoreCounts(), isAway: true, unsentSessions: 0 }
  watch.expose(state)
  watch.observe('shared', false)
  const lines = (counts: readonly number[], buckets: readonly number[]) => [
    `gateway_store_breaker_open ${counts[0]}`,
    `gateway_store_outages_total ${counts[1]}`,
    ...['0.00025', '0.0005', '0.001', '0.002', '0.005', '0.01', '0.025', '+Inf'].map(
      (le, i) => `gateway_store_round_trip_duration_seconds_bucket{le="${le}"} ${buckets[i]}`,
    ),
    `gateway_store_round_trip_duration_seconds_sum ${counts[2]}`,
    `gateway_store_round_trip_duration_seconds_count ${counts[3]}`,
    `gateway_store_round_trips_total ${counts[3]}`,
    `gateway_store_script_reloads_total ${counts[4]}`,
    `gateway_store_takes_total{outcome="decided"} ${counts[5]}`,
    `gateway_store_takes_total{outcome="undecided"} ${counts[6]}`,
    `gateway_store_unsent_sessions ${counts[7]}`,
    `gateway_store_writable{store="shared"} ${counts[8]}`,
    'gateway_store_write_errors_total{store="shared"} 0',
  ]
  assert.deepEqual(await storeLines(metrics), lines([1, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]))
  countRoundTrip(state.counts, 0.5)
  countRoundTrip(state.counts, 32)
  Object.assign(state.counts, { outages: 3, scriptReloads: 1, takes: 5, undecidedTakes: 2 })
  Object.assign(state, { isAway: false, unsentSessions: 4 })
  assert.deepEqual(
    await storeLines(metrics),
    lines([0, 3, 0.0325, 2, 1, 5, 2, 4, 1], [0, 1, 1, 1, 1, 1, 1, 2]),
  )
})

it('a lasting fault is recorded again each hour, with its beginning, until it is over', () => {
  let nowMs = 0
  const { watch, records, lines } = watching(() => nowMs)
  watch.repeat()
  watch.fault('limits', 'ENOSPC')
  watch.observe('limits', false)
  watch.observe('webhooks', false)
  for (nowMs = 0; nowMs < 7_300_000; nowMs += 1000) {
    if (nowMs === 3_700_000) watch.observe('webhooks', true)
    watch.observe('limits', false)
    watch.repeat()
  }
  watch.observe('limits', true)
  nowMs += 7_200_000
  watch.repeat()
  const since = records[0]?.timestamp
  const webhooksSince = records[1]?.timestamp
  assert.deepEqual(
    records.map(({ timestamp, ...record }) => record),
    [
      { type: 'STORE_DEGRADED', store: 'limits', cause: 'ENOSPC' },
      { type: 'STORE_DEGRADED', store: 'webhooks' },
      { type: 'STORE_DEGRADED', store: 'limits', cause: 'ENOSPC', since },
      { type: 'STORE_DEGRADED', store: 'webhooks', since: webhooksSince },
      { type: 'STORE_RESTORED', store: 'webhooks', since: webhooksSince },
      { type: 'STORE_DEGRADED', store: 'limits', cause: 'ENOSPC', since },
      { type: 'STORE_RESTORED', store: 'limits', since },
    ],
  )
  assert.equal(lines.filter(({ msg }) => msg === 'a store in the data directory cannot be written').length, 2)
})
