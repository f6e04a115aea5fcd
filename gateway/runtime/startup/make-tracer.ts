import type { Metrics } from '../../admin/metrics.ts'
import type { DropReason } from '../../tracing/span-exporter.ts'
import { Tracer } from '../../tracing/tracer.ts'
import { gatewayIdOf } from '../gateway-state.ts'
import { RepeatedFault } from '../repeated-fault.ts'
import type { StartupConfiguration } from '../startup-configuration.ts'

/** A receiver that is away is tried every half minute. */
const REPEAT_MS = 60_000
const DROP_REASONS: readonly DropReason[] = ['queue_full', 'refused', 'undelivered', 'stopped']

/** @param secret of this gateway */
export function makeTracer(
  { settings, version, log }: StartupConfiguration,
  { metrics, secret }: { readonly metrics: Metrics; readonly secret: Uint8Array },
): Tracer | undefined {
  if (settings.tracing === undefined) return undefined
  const exported = metrics.gateway_trace_spans_exported_total
  const dropped = metrics.gateway_trace_spans_dropped_total
  exported.begin()
  for (const reason of DROP_REASONS) dropped.begin(reason)
  const fault = new RepeatedFault(REPEAT_MS)
  return new Tracer({
    settings: settings.tracing,
    version,
    instanceId: gatewayIdOf(secret),
    clock: Date.now,
    steadyClock: () => performance.now(),
    reports: {
      exported: (spans) => {
        exported.add(spans)
        if (fault.cause !== undefined) log.info('spans are exported again')
        fault.cause = undefined
      },
      dropped: (reason, spans) => {
        dropped.add(spans, reason)
        // Nobody will read the metric.
        if (reason === 'stopped') log.warn({ spans }, 'spans were lost at the stop')
      },
      fault: (cause) => {
        if (fault.isDue(cause)) log.warn({ cause }, 'spans are not exported')
      },
    },
  })
}
