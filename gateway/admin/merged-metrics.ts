import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, type Registry } from 'prom-client'

/** The metrics of one thread at one moment; plain data, so that it can be posted. */
export type MetricsSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[]

/** Of each thread's own event loop: all of them together say less than the worst. */
const WORST = /^nodejs_eventloop_lag_(?!min_)/
/** Of the process, or the same everywhere: the main thread says it once. */
const ONCE = /^process_|^nodejs_version_info$/

/** Says how each metric is merged with its namesakes; what is not named is added up. */
export function prepareToMerge(registry: Registry, isWorker: boolean): void {
  for (const { name } of registry.getMetricsAsArray()) {
    if (isWorker && ONCE.test(name)) registry.removeSingleMetric(name)
    else mergeAs(registry, name)
  }
}

function mergeAs(registry: Registry, name: string): void {
  const metric: object = registry.getSingleMetric(name) ?? {}
  if (ONCE.test(name)) Object.assign(metric, { aggregator: 'first' })
  else if (WORST.test(name)) Object.assign(metric, { aggregator: 'max' })
  else if (name === 'nodejs_eventloop_lag_min_seconds') Object.assign(metric, { aggregator: 'min' })
}

/** One page of all threads, in the exposition format: counters and histograms added up, gauges as each of them says. */
export function exposeMerged(snapshots: readonly MetricsSnapshot[]): Promise<string> {
  return AggregatorRegistry.aggregate(snapshots.map((snapshot) => [...snapshot])).metrics()
}

/**
 * What remains of threads that are no more: what they counted, without the state that they were in. Without it the page
 * would run back.
 */
export function countedBy(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  const counted = snapshots.map((snapshot) =>
    snapshot.filter(({ type }) => ['counter', 'histogram'].includes(String(type))),
  )
  const merged: unknown[] = AggregatorRegistry.aggregate(counted).getMetricsAsArray()
  // A merged metric is its own snapshot, with a function that gives it.
  return merged.map((metric) => ({ ...(metric as MetricsSnapshot[number]), get: undefined }))
}
