import type { KeeperReports } from '../audit/segments/keeper.ts'
import type { Reports } from './reload/reload-reports.ts'

/** Reports to log and metrics what becomes of closed segments of the audit trail. */
export function segmentReports({ log, metrics }: Pick<Reports, 'log' | 'metrics'>): KeeperReports {
  return {
    info: (fields, message) => log.info(fields, message),
    warn: (fields, message) => log.warn(fields, message),
    done: (task) => metrics.segmentDone(task),
    unshipped: (count, oldestMs) => metrics.unshippedSegments(count, oldestMs),
    failed: (task, cause) => {
      metrics.segmentFailed(task)
      log.error({ task, cause }, 'closed audit segments cannot be looked after')
    },
  }
}
