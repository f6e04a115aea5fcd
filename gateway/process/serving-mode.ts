import type { Exposition } from '../admin/metrics.ts'
import type { Trail } from '../audit/trail.ts'
import type { Stop } from './drain.ts'

/** The gateway as its process sees it, whether it has workers or not. */
export interface ServingMode {
  readonly trail: Trail
  readonly metrics: Exposition
  /** Opens the public listeners; resolves when requests are served. Throws when that cannot be. */
  begin(): Promise<{ readonly port: number; readonly tlsPort: number | undefined }>
  /** Why no traffic should come, in words for the probe; undefined when it should. */
  notReady(): string | undefined
  /** What the gateway does without, in words for the probe; undefined when it lacks nothing. */
  degraded(): string | undefined
  /** Finishes what was admitted, admits nothing more, and closes everything. */
  drain(stop: Stop): Promise<void>
  /** Closes everything of a gateway that could not begin. */
  abandon(reason: string): Promise<void>
}
