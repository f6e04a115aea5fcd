import type { Metrics } from '../../admin/metrics.ts'
import { Tracer } from '../../http/tracing/tracer.ts'
import { RepeatedFault } from '../repeated-fault.ts'
import { gatewayIdOf } from '../shared-state.ts'
import type { StartupConfiguration } from '../startup-configuration.ts'

/** A receiver that is away is tried every half minute. */
const REPEAT_MS = 60_000

/** @param secret the same in all threads of the gateway */
export function makeTracer(
  { settings, version, log }: StartupConfiguration,
  { metrics, secret }: { readonly metrics: Metrics; readonly secret: Uint8Array },
): Tracer | undefined {
  if (settings.tracing === undefined) return undefined
  metrics.tracing()
  const fault = new RepeatedFault(REPEAT_MS)
  return new Tracer({
    settings: settings.tracing,
    version,
    instanceId: gatewayIdOf(secret),
    clock: Date.now,
    steadyClock: () => performance.now(),
    reports: {
      exported: (spans) => {
        metrics.spansExported(spans)
        if (fault.cause !== undefined) log.info('spans are exported again')
        fault.cause = undefined
      },
      dropped: (reason, spans) => {
        metrics.spansDropped(reason, spans)
        // Nobody will read the metric.
        if (reason === 'stopped') log.warn({ spans }, 'spans were lost at the stop')
      },
      fault: (cause) => {
        if (fault.isDue(cause)) log.warn({ cause }, 'spans are not exported')
      },
    },
  })
}
