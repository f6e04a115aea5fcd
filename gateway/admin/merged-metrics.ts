import { type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client'

/** The metrics of one thread at one moment: plain data that can be posted to another thread. */
export type MetricsSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[]

/** Per process: only the main thread's value is reported. */
const ONCE = /^process_|^nodejs_version_info$/

/** Sets how each metric is merged; all others are summed. */
export function prepareToMerge(registry: Registry, isWorker: boolean): void {
  for (const { name } of registry.getMetricsAsArray()) {
    if (isWorker && ONCE.test(name)) registry.removeSingleMetric(name)
    else if (ONCE.test(name)) Object.assign(registry.getSingleMetric(name) ?? {}, { aggregator: 'first' })
  }
}

/** The page of all threads in the exposition format: counters and histograms summed, gauges as set above. */
export function exposeMerged(snapshots: readonly MetricsSnapshot[]): Promise<string> {
  const merged = Registry.aggregate(snapshots.map((snapshot) => [...snapshot]))
  for (const metric of merged.getMetricsAsArray()) {
    // The library's merged metrics are plain data, whose values it writes as they stand.
    const { values } = metric as unknown as { values: MetricValue<string>[] }
    values.splice(0, values.length, ...bySeries(values))
  }
  return merged.metrics()
}

/** The buckets, the sum and the count of each histogram together, as one thread exposes them. */
function bySeries(values: readonly MetricValue<string>[]): MetricValue<string>[] {
  const series = Map.groupBy(values, ({ labels }) => JSON.stringify({ ...labels, le: undefined }))
  return [...series.values()].flat()
}

/** The metrics of all threads together, as data. */
export function mergedSnapshot(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  const merged: unknown[] = Registry.aggregate(snapshots.map((snapshot) => [...snapshot])).getMetricsAsArray()
  // The library's merged metrics are plain data with a `get` function.
  return merged.map((metric) => ({ ...(metric as MetricsSnapshot[number]), get: undefined }))
}

/** The counts, but not the gauges, of threads that have ended: without them counters would go back. */
export function countedBy(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  return mergedSnapshot(
    snapshots.map((snapshot) =>
      snapshot.filter(({ type }) => ['counter', 'histogram'].includes(String(type))),
    ),
  )
}
