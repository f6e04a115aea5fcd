import { Counter, type Registry } from 'prom-client'

const REASONS = ['queue_full', 'refused', 'undelivered', 'stopped'] as const

/** How many spans became what. Without tracing there are no such metrics. */
export function traceMetrics(registers: Registry[]) {
  let counters: { readonly exported: Counter; readonly dropped: Counter<'reason'> } | undefined
  const begin = () => {
    if (counters !== undefined) return counters
    counters = {
      exported: new Counter({
        name: 'gateway_trace_spans_exported_total',
        help: 'Spans that the OTLP receiver took.',
        registers,
      }),
      dropped: new Counter({
        name: 'gateway_trace_spans_dropped_total',
        help: 'Spans that were lost, by reason: queue_full, refused by the receiver, undelivered, or stopped before they were sent.',
        labelNames: ['reason'],
        registers,
      }),
    }
    for (const reason of REASONS) counters.dropped.inc({ reason }, 0)
    return counters
  }
  return {
    /** Exposes them from the start: a rate needs a first value. */
    tracing: () => {
      begin()
    },
    spansExported: (spans: number) => begin().exported.inc(spans),
    spansDropped: (reason: (typeof REASONS)[number], spans: number) => begin().dropped.inc({ reason }, spans),
  }
}
