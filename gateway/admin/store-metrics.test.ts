import assert from 'node:assert/strict'
import { it } from 'node:test'
import { countRoundTrip, newStoreCounts } from '../store/store-counts.ts'
import { createMetrics } from './metrics.ts'

function withStore({ isAway = false, unsentSessions = 0 } = {}) {
  const metrics = createMetrics({ version: '1.2.3' })
  const state = { counts: newStoreCounts(), isAway, unsentSessions }
  metrics.sharedStore(state)
  return { metrics, state }
}

function storeLines(page: string): string[] {
  return page.split('\n').filter((line) => line.startsWith('gateway_store_'))
}

it('a gateway without a shared store has no metric of it', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  metrics.storeWritable('limits', true)
  assert.deepEqual(storeLines(await metrics.expose()), [
    'gateway_store_writable{store="limits"} 1',
    'gateway_store_write_errors_total{store="limits"} 0',
  ])
})

it('all metrics of a shared store are there from the first moment', async () => {
  const { metrics } = withStore({ isAway: true })
  assert.deepEqual(storeLines(await metrics.expose()), [
    'gateway_store_writable{store="shared"} 0',
    'gateway_store_write_errors_total{store="shared"} 0',
    'gateway_store_round_trips_total 0',
    ...['0.00025', '0.0005', '0.001', '0.002', '0.005', '0.01', '0.025', '+Inf'].map(
      (le) => `gateway_store_round_trip_duration_seconds_bucket{le="${le}"} 0`,
    ),
    'gateway_store_round_trip_duration_seconds_sum 0',
    'gateway_store_round_trip_duration_seconds_count 0',
    'gateway_store_breaker_open 1',
    'gateway_store_takes_total{outcome="decided"} 0',
    'gateway_store_takes_total{outcome="undecided"} 0',
    'gateway_store_script_reloads_total 0',
    'gateway_store_outages_total 0',
    'gateway_store_unsent_sessions 0',
  ])
})

it('what the gateway counts of a shared store is read at each scrape', async () => {
  const { metrics, state } = withStore({ unsentSessions: 2 })
  countRoundTrip(state.counts, 0.3)
  countRoundTrip(state.counts, 40)
  state.counts.takes += 2
  state.counts.undecidedTakes++
  state.counts.scriptReloads++
  state.counts.outages++
  const lines = storeLines(await metrics.expose())
  const sum = lines.find((line) => line.startsWith('gateway_store_round_trip_duration_seconds_sum '))
  assert.equal(Number(sum?.split(' ')[1]).toFixed(4), '0.0403')
  const expected = [
    'gateway_store_writable{store="shared"} 1',
    'gateway_store_round_trips_total 2',
    'gateway_store_round_trip_duration_seconds_bucket{le="0.00025"} 0',
    ...['0.0005', '0.001', '0.002', '0.005', '0.01', '0.025'].map(
      (le) => `gateway_store_round_trip_duration_seconds_bucket{le="${le}"} 1`,
    ),
    'gateway_store_round_trip_duration_seconds_bucket{le="+Inf"} 2',
    'gateway_store_round_trip_duration_seconds_count 2',
    'gateway_store_breaker_open 0',
    'gateway_store_takes_total{outcome="decided"} 2',
    'gateway_store_takes_total{outcome="undecided"} 1',
    'gateway_store_script_reloads_total 1',
    'gateway_store_outages_total 1',
    'gateway_store_unsent_sessions 2',
  ]
  for (const line of expected) assert.ok(lines.includes(line), `${line} is not in\n${lines.join('\n')}`)
})
