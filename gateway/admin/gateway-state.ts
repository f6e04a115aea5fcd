import { Gauge, type Registry } from 'prom-client'

/** What the gateway knows of itself. Read when the metrics are collected. */
export interface GatewayState {
  /** As /readyz says. */
  readonly isReady: () => boolean
  readonly isTrailWritable: () => boolean
}

/** Exposes it. Called once. */
export function exposeState(registers: Registry[], state: GatewayState): void {
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
}
