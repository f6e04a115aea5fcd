import { basename } from 'node:path'
import type { ConfigInForce, ConfigPart } from '../admin/config-in-force.ts'
import { configChangeRecord } from '../audit/audit-records.ts'
import type { ClientTable } from '../config/clients-file.ts'
import { parseClients } from '../config/clients-file.ts'
import { describeFault, type Fault } from '../config/faults.ts'
import type { LoadedFile } from '../config/load-file.ts'
import { Reloader } from '../config/reload/reloader.ts'
import type { TlsSettings } from '../config/settings.ts'
import type { Gateway } from '../gateway.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import { parseLimits } from '../limits/table/limits-file.ts'
import { writtenRow } from '../limits/table/written-row.ts'
import { clientIssuerFaults } from '../tls/clients/client-issuers.ts'
import type { TlsMaterial, TlsTexts } from '../tls/listener/tls-context.ts'
import { type LoadedTls, TlsReloader } from '../tls/listener/tls-reload.ts'
import { limitWarnings } from './config-warnings.ts'
import { parseApart } from './parse-apart.ts'
import type { StartupConfiguration } from './startup-configuration.ts'

/** Watches a configuration file until it is stopped. */
export interface Watching {
  /** Reads the file now. A faulty one is called so only after `MOST_LOOKS`. */
  check(): Promise<void>
  stop(): void
}

/** How often a file is read before it is called faulty: the certificates. */
const MOST_LOOKS = 3

/** Reads all files now; resolves when the results have been reported. */
export async function checkNow(watching: readonly Watching[]): Promise<void> {
  for (let look = 0; look < MOST_LOOKS; look++) for (const each of watching) await each.check()
}

/** Where the result of an edit is reported. */
export interface Reports extends Pick<Gateway, 'log' | 'metrics' | 'trail' | 'clock'> {
  readonly config: ConfigInForce
}

interface WatchedFiles extends Reports {
  readonly startup: StartupConfiguration
  /** What client certificates are verified against now. */
  readonly tls: Gateway['tls']
  /** Puts an edit in force. When it throws, the old configuration stays in force. */
  readonly enforce: {
    limits(rows: readonly LimitRow[]): void
    clients(table: ClientTable): void
  }
}

/** Puts each valid edit in force, counts it and records it in the audit trail; reports the faults of an invalid one. */
export function watchFiles(watched: WatchedFiles): Watching[] {
  const { settings, limits, clients } = watched.startup
  const watching: Watching[] = [watchLimits(watched, limits)]
  if (settings.clientsFile !== undefined && clients !== undefined) {
    watching.push(watchClients(watched, settings.clientsFile, clients))
  }
  return watching
}

function watchLimits(watched: WatchedFiles, loaded: LoadedFile<readonly LimitRow[]>): Watching {
  const file = watched.startup.settings.limitsFile
  const report = reporter(watched, { file, label: basename(file), what: 'limits' })
  const warn = (rows: readonly LimitRow[]) => {
    for (const warning of limitWarnings(watched.startup.settings.routes, rows)) {
      watched.log.warn({ file, warning }, 'configuration')
    }
  }
  warn(loaded.value)
  return new Reloader({
    file,
    ...loaded,
    parse: parseApart('limits', parseLimits),
    swap: watched.enforce.limits,
    onReload: (reload) => {
      if (reload.result === 'failure') {
        report.failure(reload.faults)
        return
      }
      report.success(reload.changed, reload.before.map(writtenRow), reload.after.map(writtenRow))
      if (reload.changed) warn(reload.after)
    },
  })
}

function watchClients(watched: WatchedFiles, file: string, loaded: LoadedFile<ClientTable>): Watching {
  const report = reporter(watched, { file, label: basename(file), what: 'clients' })
  const parse = parseApart('clients', parseClients)
  return new Reloader({
    file,
    ...loaded,
    parse: async (name, text) => {
      const parsed = await parse(name, text)
      const faults = parsed.faults ?? clientIssuerFaults(name, parsed.value, watched.tls.trust)
      return faults.length > 0 ? { faults } : parsed
    },
    swap: watched.enforce.clients,
    onReload: (reload) =>
      reload.result === 'failure'
        ? report.failure(reload.faults)
        : report.success(reload.changed, reload.before.rows, reload.after.rows),
  })
}

interface WatchedTls {
  readonly settings: TlsSettings
  readonly loaded: LoadedTls
  /** Puts it in force for new connections; open ones stay as they are. */
  readonly enforce: (material: TlsMaterial, texts: TlsTexts) => void
  /** The client table in force; undefined when there is no clients file. */
  readonly clients: () => ClientTable | undefined
}

const NONE: Pick<ClientTable, 'rows' | 'issuers'> = { rows: [], issuers: new Map() }

/** Certificate, key, client authorities and revocation lists, up to four files, are reloaded together. */
export function watchTls(reports: Reports, { settings, loaded, enforce, clients }: WatchedTls): Watching {
  const { log, metrics } = reports
  const report = reporter(reports, { file: settings.certFile, label: 'tls', what: 'certificates' })
  metrics.certificateExpiry(loaded.material.summary.certificate.notAfterSeconds)
  return new TlsReloader({
    files: settings,
    loaded,
    clock: reports.clock,
    swap: (material, texts) => {
      const [fault] = clientIssuerFaults('clients', clients() ?? NONE, material.trust)
      if (fault !== undefined) throw new Error(`${fault.path} of the clients in force ${fault.reason}`)
      enforce(material, texts)
      metrics.certificateExpiry(material.summary.certificate.notAfterSeconds)
    },
    onReload: (reload) => {
      if (reload.result === 'failure') {
        report.failure(reload.faults)
        return
      }
      const { changed, before, after } = reload
      for (const warning of after.warnings) log.warn({ warning }, 'tls')
      report.success(changed, [before.summary], [after.summary])
    },
  })
}

interface Edited {
  readonly file: string
  /** Label of the metrics. */
  readonly label: string
  readonly what: ConfigPart
}

/** Reports the result of an edit to metrics, log and audit trail. */
export function reporter(reports: Reports, { file, label, what }: Edited) {
  const { log, metrics, trail, clock, config } = reports
  metrics.configReload(label, 'success')
  return {
    failure: (faults: readonly Fault[]) => {
      metrics.configReload(label, 'failure')
      config.failed(what, faults)
      log.error({ file, faults: faults.map(describeFault) }, `the last good ${what} stay in force`)
    },
    success: (changed: boolean, before: readonly object[], after: readonly object[]) => {
      metrics.configReload(label, 'success')
      config.replaced(what, after, changed)
      const timestamp = new Date(clock()).toISOString()
      if (changed) trail.settle(configChangeRecord({ timestamp, file, before, after }))
      log.info({ file, rows: after.length, changed }, `${what} in force`)
    },
  }
}
