import type { MetricsSnapshot } from '../admin/merged-metrics.ts'
import type { Exposition } from '../admin/metrics.ts'
import type { Trail } from '../audit/trail.ts'
import type { Settings } from '../config/settings.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { Stop } from './drain.ts'
import type { Reports, Watching } from './reload/reload-reports.ts'
import type { HandOver } from './restart/hand-over.ts'

/** A running gateway, with or without workers. */
export interface ServingMode {
  readonly trail: Trail
  readonly metrics: Exposition
  /** The metrics of all threads, as data. */
  collect(): Promise<MetricsSnapshot>
  /** For who only looks at what is counted. */
  readonly limiter: Pick<Limiter, 'inForce'>
  /** Where edits of files are reported. */
  readonly reports: Reports
  /** Has another file read with those of the configuration, until they are no longer watched. */
  watch(file: Watching): void
  /** In force now. */
  readonly settings: Settings
  /** With it another process can take over; undefined: none can, or not yet. */
  readonly handOver?: HandOver | undefined
  /** Opens the public listeners; resolves when requests are served. @throws CannotListen */
  begin(): Promise<{ readonly port: number; readonly tlsPort: number | undefined }>
  /** Why the gateway is not ready, for the probe; undefined when it is ready. */
  notReady(): string | undefined
  /** What is degraded, for the probe; undefined when nothing is. */
  degraded(): string | undefined
  /** Reads the configuration files now, in place of at the next look; resolves when the results have been reported. */
  reload(): Promise<void>
  /** Finishes what was admitted, admits nothing more, and closes everything. */
  drain(stop: Stop): Promise<void>
  /** Closes the parts of a gateway that could not start. */
  abandon(reason: string): Promise<void>
}
