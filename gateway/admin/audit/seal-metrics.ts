import { Counter, Gauge, type Registry } from 'prom-client'

/** How far the audit trail is sealed. Read when the metrics are collected. */
export interface SealState {
  readonly lagMs: number
  readonly unsealedRecords: number
  /** Leaves of the tree that its checkpoint covers. */
  readonly sealedSize: number
}

/** What happens to seals, for whoever counts it. */
export interface SealCounts {
  /** A checkpoint is on the disk. @param atMs milliseconds since the epoch */
  sealed(atMs: number): void
  fault(): void
  gap(): void
}

export interface SealMetrics {
  /** Exposes the seals from now on; without it there is no metric of them. Called once. */
  seals(state: SealState): SealCounts
}

export function sealMetrics(registers: Registry[]): SealMetrics {
  return { seals: (state) => expose(registers, state) }
}

function expose(registers: Registry[], state: SealState): SealCounts {
  const gauge = (name: string, help: string, value?: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        if (value !== undefined) this.set(value())
      },
    })
  const counter = (name: string, help: string) => new Counter({ name, help, registers })
  gauge(
    'gateway_audit_seal_lag_seconds',
    'Age of the oldest record that no checkpoint covers yet, at most, counted from the start for what was left then; a second or two under load.',
    () => state.lagMs / 1000,
  )
  gauge(
    'gateway_audit_unsealed_records',
    'Records that wait for the next checkpoint.',
    () => state.unsealedRecords,
  )
  gauge(
    'gateway_audit_tree_size',
    'Records that the last checkpoint covers, since the log began.',
    () => state.sealedSize,
  )
  const last = gauge(
    'gateway_audit_last_seal_timestamp_seconds',
    'When the last checkpoint of this run was made; 0: none yet.',
  )
  last.set(0)
  const faults = counter('gateway_audit_seal_faults_total', 'Times that sealing failed; it is tried again.')
  const gaps = counter(
    'gateway_audit_seal_gaps_total',
    'Times that sealed records were no longer in the audit trail.',
  )
  return {
    sealed: (atMs) => last.set(atMs / 1000),
    fault: () => faults.inc(),
    gap: () => gaps.inc(),
  }
}
