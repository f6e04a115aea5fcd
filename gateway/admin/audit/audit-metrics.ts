import { Gauge, type Metric, type Registry } from 'prom-client'
import { Tally } from '../tally.ts'

/** Of the audit trail itself. */
export function auditMetrics(registers: Registry[]) {
  const records = new Tally({
    name: 'gateway_audit_records_total',
    help: 'Records handed to the audit trail, by type.',
    labelNames: ['type'],
  })
  const writeErrors = new Tally({
    name: 'gateway_audit_write_errors_total',
    help: 'Writes to the audit trail that failed.',
    labelNames: [],
  })
  const segments = new Tally({
    name: 'gateway_audit_segments_total',
    help: 'Closed segments of the audit trail that were compressed, shipped or pruned; prune_early are those of prune that went before their time.',
    labelNames: ['task'],
  })
  const segmentErrors = new Tally({
    name: 'gateway_audit_segment_errors_total',
    help: 'Closed segments of the audit trail that could not be compressed, shipped or pruned; tried again later.',
    labelNames: ['task'],
  })
  for (const task of ['compress', 'ship', 'prune']) {
    segments.begin(task)
    segmentErrors.begin(task)
  }
  segments.begin('prune_early')
  for (const registry of registers) {
    for (const family of [records, writeErrors, segments, segmentErrors])
      registry.registerMetric(family as unknown as Metric)
  }
  let unshipped = 0
  let oldestMs: number | undefined
  new Gauge({
    name: 'gateway_audit_unshipped_segments',
    help: 'Closed segments of the audit trail that are not yet where audit.ship copies them.',
    registers,
    collect() {
      this.set(unshipped)
    },
  })
  new Gauge({
    name: 'gateway_audit_ship_lag_seconds',
    help: 'How long ago the oldest audit segment was closed that is not shipped yet; 0 when there is none.',
    registers,
    collect() {
      this.set(oldestMs === undefined ? 0 : Math.max(0, (Date.now() - oldestMs) / 1000))
    },
  })
  let pending = () => 0
  new Gauge({
    name: 'gateway_audit_records_pending',
    help: 'Records that are not yet where the durability promises them: in the file, or on the disk.',
    registers,
    collect() {
      this.set(pending())
    },
  })
  return {
    auditRecord: (type: string) => records.count(type),
    auditWriteError: () => writeErrors.count(),
    segmentDone: (task: string) => segments.count(task),
    segmentFailed: (task: string) => segmentErrors.count(task),
    unshippedSegments: (count: number, oldestClosedMs: number | undefined) => {
      unshipped = count
      oldestMs = oldestClosedMs
    },
    /** What counts the records that wait, read when the metrics are collected. */
    auditPending: (count: () => number) => {
      pending = count
    },
  }
}
