import { Gauge, type Metric, type Registry } from 'prom-client'
import { LATENCY_BOUNDS_MS, type StoreCounts } from '../store/store-counts.ts'
import { Tally } from './tally.ts'

/** The shared store as the gateway sees it. Read when the metrics are collected. */
export interface SharedStoreState {
  readonly counts: Readonly<StoreCounts>
  /** Whether the breaker is open: then the store is not asked. */
  readonly isAway: boolean
  /** Ended sessions that other gateways have still to be told of. */
  readonly unsentSessions: number
}

export interface StoreMetrics {
  /** For each store in the data directory, and `shared`. */
  storeWritable(store: string, writable: boolean): void
  storeWriteError(store: string): void
  /** Exposes the shared store from now on; without it there is no metric of it. Called once. */
  sharedStore(state: SharedStoreState): void
}

export function storeMetrics(registers: Registry[]): StoreMetrics {
  let shared: SharedStoreState | undefined
  const writable = new Gauge({
    name: 'gateway_store_writable',
    help: '1 unless what protects cannot be written: limits, revocations and webhooks to the data directory, shared to the store of several gateways.',
    labelNames: ['store'],
    registers,
    collect() {
      if (shared !== undefined) this.set({ store: 'shared' }, shared.isAway ? 0 : 1)
    },
  })
  const errors = new Tally({
    name: 'gateway_store_write_errors_total',
    help: 'Faults of what is kept in the data directory, and of connections to the shared store, by store.',
    labelNames: ['store'],
  })
  register(registers, errors)
  return {
    storeWritable: (store, isWritable) => {
      writable.set({ store }, isWritable ? 1 : 0)
      errors.begin(store)
    },
    storeWriteError: (store) => errors.count(store),
    sharedStore: (state) => {
      shared = state
      errors.begin('shared')
      for (const family of familiesOf(state)) register(registers, family)
    },
  }
}

interface Sample {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  readonly metricName?: string
}

/** A metric in the form that prom-client's registry reads. */
interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly samples: () => readonly Sample[]
}

function familiesOf(state: SharedStoreState): readonly Family[] {
  const { counts } = state
  const one = (value: number): readonly Sample[] => [{ labels: {}, value }]
  const counter = (name: string, help: string, samples: () => readonly Sample[]): Family => ({
    name,
    help,
    type: 'counter',
    samples,
  })
  return [
    counter('gateway_store_round_trips_total', 'Commands that the shared store replied to in time.', () =>
      one(counts.roundTrips),
    ),
    {
      name: ROUND_TRIP_DURATION,
      help: 'Time from sending a command to the shared store to its reply; late replies are not in it.',
      type: 'histogram',
      samples: () => latencySamples(counts),
    },
    {
      name: 'gateway_store_breaker_open',
      help: '1 while the shared store is away and not asked: rows are counted as their onStoreFailure says.',
      type: 'gauge',
      samples: () => one(state.isAway ? 1 : 0),
    },
    counter(
      'gateway_store_takes_total',
      'Hits on limits that the shared store was to decide; undecided: it was away, and onStoreFailure decided.',
      () => [
        { labels: { outcome: 'decided' }, value: counts.takes },
        { labels: { outcome: 'undecided' }, value: counts.undecidedTakes },
      ],
    ),
    counter(
      'gateway_store_script_reloads_total',
      'How often the script of limits was sent because the server did not know it, as after its restart.',
      () => one(counts.scriptReloads),
    ),
    counter('gateway_store_outages_total', 'How often the shared store went away.', () =>
      one(counts.outages),
    ),
    {
      name: 'gateway_store_unsent_sessions',
      help: 'Ended sessions that other gateways have still to be told of.',
      type: 'gauge',
      samples: () => one(state.unsentSessions),
    },
  ]
}

const ROUND_TRIP_DURATION = 'gateway_store_round_trip_duration_seconds'

function latencySamples({ latency, roundTrips, roundTripMs }: StoreCounts): readonly Sample[] {
  let count = 0
  const buckets = latency.map((own, i) => {
    const bound = LATENCY_BOUNDS_MS[i]
    const le = bound === undefined ? '+Inf' : bound / 1000
    count += own
    return { metricName: `${ROUND_TRIP_DURATION}_bucket`, labels: { le }, value: count }
  })
  return [
    ...buckets,
    { metricName: `${ROUND_TRIP_DURATION}_sum`, labels: {}, value: roundTripMs / 1000 },
    { metricName: `${ROUND_TRIP_DURATION}_count`, labels: {}, value: roundTrips },
  ]
}

/** The registry accepts any object with `get`; the library's types do not say so. */
function register(registers: Registry[], family: Tally | Family): void {
  const metric = family instanceof Tally ? family : collected(family)
  for (const registry of registers) registry.registerMetric(metric as unknown as Metric)
}

function collected({ samples, ...family }: Family) {
  return { ...family, get: () => Promise.resolve({ ...family, values: samples() }) }
}
