import { Counter, Gauge, type Registry } from 'prom-client'

/** What the main thread knows of the whole gateway. Read when the metrics are collected. */
export interface GatewayState {
  /** As /readyz says. */
  readonly isReady: () => boolean
  readonly isTrailWritable: () => boolean
  /** Event loops that serve requests. */
  readonly workers: () => number
}

/** Exposes it. Called once, in the main thread only. @returns what counts a worker that died. */
export function exposeState(registers: Registry[], state: GatewayState): { workerDied(): void } {
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value())
      },
    })
  gauge('gateway_ready', '1 when /readyz is green.', () => (state.isReady() ? 1 : 0))
  gauge('gateway_audit_writable', '1 unless the audit trail cannot be written; then requests get 503.', () =>
    state.isTrailWritable() ? 1 : 0,
  )
  gauge('gateway_workers', 'Event loops that serve requests.', state.workers)
  const died = new Counter({
    name: 'gateway_workers_died_total',
    help: 'Worker threads that ended unasked; each is replaced.',
    registers,
  })
  return { workerDied: () => died.inc() }
}
