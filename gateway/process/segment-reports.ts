import type { KeeperReports } from '../audit/segments/keeper.ts'
import type { Reports } from './reload/reload-reports.ts'

/** Reports to log and metrics what becomes of closed segments of the audit trail. */
export function segmentReports({ log, metrics }: Pick<Reports, 'log' | 'metrics'>): KeeperReports {
  const done = metrics.gateway_audit_segments_total
  const failed = metrics.gateway_audit_segment_errors_total
  for (const task of ['compress', 'ship', 'prune']) {
    done.begin(task)
    failed.begin(task)
  }
  let unshipped = 0
  let oldestMs: number | undefined
  metrics.gateway_audit_unshipped_segments.read(() => unshipped)
  metrics.gateway_audit_ship_lag_seconds.read(() =>
    oldestMs === undefined ? 0 : Math.max(0, Date.now() - oldestMs) / 1000,
  )
  return {
    info: (fields, message) => log.info(fields, message),
    warn: (fields, message) => log.warn(fields, message),
    done: (task) => done.count(task),
    unshipped: (count, oldestClosedMs) => {
      unshipped = count
      oldestMs = oldestClosedMs
    },
    failed: (task, cause) => {
      failed.count(task)
      log.error({ task, cause }, 'closed audit segments cannot be looked after')
    },
  }
}
