import { join } from 'node:path'
import type { Metrics } from '../admin/metrics.ts'
import type { ForeignWrite } from '../audit/seal-records.ts'
import type { KeeperReports } from '../audit/segments/keeper.ts'
import { idempotencyKeysOf } from '../config/secret-line.ts'
import type { Gateway } from '../gateway.ts'
import { type KeySecrets, secretsOf } from '../idempotency/key-secret.ts'
import { KeyTable } from '../idempotency/key-table.ts'
import type { JournalOptions } from '../limits/journal/limit-journal.ts'
import { RepeatedFault } from './repeated-fault.ts'
import type { StartupConfiguration } from './startup/read-configuration.ts'
import type { StoreWatch } from './store-watch.ts'

export function trailOptions({ settings, log, version, clock }: StartupConfiguration, metrics: Metrics) {
  const { file, durability } = settings.audit
  metrics.gateway_audit_write_errors_total.begin()
  metrics.gateway_audit_foreign_bytes_total.begin()
  const fault = new RepeatedFault()
  return {
    file,
    durability,
    version,
    clock,
    onFault: ({ message: cause }: Error) => {
      metrics.gateway_audit_write_errors_total.count()
      metrics.causes.set('gateway_audit_writable', cause)
      const due = fault.due(cause)
      if (due !== undefined) log.error({ file, ...due }, 'the audit trail cannot be written')
    },
    onForeign: ({ file: name, at, found, reason }: ForeignWrite) => {
      // At least 1: a file that was renamed or overwritten in place still has the known size.
      metrics.gateway_audit_foreign_bytes_total.add(Math.max(Math.abs(found - at), 1))
      const cause = `${name} (${reason}): the gateway had left ${at} bytes and found ${found}`
      metrics.causes.set('gateway_audit_foreign_bytes_total', cause)
      log.error({ file: name, at, found, reason }, 'others have written to the audit trail')
    },
    onCrash: () => {
      const cause = 'the previous process was killed, or its machine lost power: the trail has no AUDIT_STOP'
      metrics.causes.set('process_start_time_seconds', cause)
      log.warn({ file, cause }, 'started after a crash')
    },
    onWritable: () => {
      if (fault.end()) log.info({ file }, 'the audit trail can be written again')
    },
    onRecord: (type: string, count: number) => metrics.gateway_audit_records_total.add(count, type),
  }
}

export function segmentReports({ log, metrics }: Pick<Gateway, 'log' | 'metrics'>): KeeperReports {
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
      log.error({ task, cause }, 'closed audit segments cannot be compressed, shipped or pruned')
    },
  }
}

/** @throws Error that names what cannot be read */
export function openKeyTable(
  { settings }: Pick<StartupConfiguration, 'settings'>,
  { watch, clock }: { readonly watch: StoreWatch; readonly clock: () => number },
  secrets: KeySecrets = secretsOf(idempotencyKeysOf(settings)),
): KeyTable {
  const table = new KeyTable({
    directory: join(settings.dataDir, 'idempotency'),
    secrets,
    syncs: settings.audit.durability === 'synced',
    clock,
    onFault: (cause) => watch.fault('idempotency', cause),
    onRemoved: (cause) => watch.removed('idempotency', cause),
  })
  watch.exposeKeys(table)
  return table
}

export function journalOptions({ settings, log }: StartupConfiguration, watch: StoreWatch): JournalOptions {
  return {
    directory: join(settings.dataDir, 'limits'),
    onFailure: settings.limits.onJournalFailure,
    reports: {
      ignored: (what) => log.warn({ ...what }, 'part of the limit journal could not be read'),
      failed: ({ message }) => watch.fault('limits', message),
      removed: (directory) =>
        watch.removed('limits', `${directory} was removed while the gateway was running, and is made again`),
    },
  }
}
