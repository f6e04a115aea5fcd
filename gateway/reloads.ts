import { basename } from 'node:path'
import type { SecureContextOptions } from 'node:tls'
import type { Ground } from './assemble.ts'
import { configChangeRecord } from './audit/records.ts'
import type { ClientTable } from './config/clients.ts'
import { parseClients } from './config/clients-file.ts'
import { describeFault, type Fault } from './config/faults.ts'
import type { LoadedFile } from './config/load-file.ts'
import { Reloader } from './config/reload.ts'
import type { TlsSettings } from './config/settings.ts'
import type { Gateway } from './gateway.ts'
import { limitTable } from './limits/policies.ts'
import type { LimitRow } from './limits/row.ts'
import { parseLimits } from './limits/table.ts'
import { writtenRow } from './limits/written-row.ts'
import { type LoadedTls, TlsReloader } from './tls/reload.ts'

/** Looks at the files that operators edit, until it is stopped. */
export interface Watching {
  stop(): void
}

/** Every accepted edit is in force, counted and in the audit trail; a bad one only says what is wrong with it. */
export function watchFiles(gateway: Gateway, ground: Ground): Watching[] {
  const { clientsFile } = gateway.settings
  const watching: Watching[] = [watchLimits(gateway, ground.limits)]
  if (clientsFile !== undefined && ground.clients !== undefined) {
    watching.push(watchClients(gateway, clientsFile, ground.clients))
  }
  return watching
}

function watchLimits(gateway: Gateway, loaded: LoadedFile<readonly LimitRow[]>): Watching {
  const file = gateway.settings.limitsFile
  const tell = teller(gateway, { file, label: basename(file), what: 'limits' })
  return new Reloader({
    file,
    ...loaded,
    parse: parseLimits,
    swap: (rows) => {
      const table = limitTable(rows)
      gateway.limiter.replace(rows)
      gateway.limits.table = table
    },
    onReload: (reload) =>
      reload.result === 'failure'
        ? tell.failure(reload.faults)
        : tell.success(reload.changed, reload.before.map(writtenRow), reload.after.map(writtenRow)),
  })
}

function watchClients(gateway: Gateway, file: string, loaded: LoadedFile<ClientTable>): Watching {
  const tell = teller(gateway, { file, label: basename(file), what: 'clients' })
  return new Reloader({
    file,
    ...loaded,
    parse: parseClients,
    swap: (table) => {
      gateway.clients.table = table
    },
    onReload: (reload) =>
      reload.result === 'failure'
        ? tell.failure(reload.faults)
        : tell.success(reload.changed, reload.before.rows, reload.after.rows),
  })
}

interface Secured {
  readonly settings: TlsSettings
  readonly loaded: LoadedTls
  /** Of the HTTPS listener: connections that stand are left as they are. */
  readonly setSecureContext: (options: SecureContextOptions) => void
}

/** Certificate, key, client authorities and revocation lists: one material of up to four files. */
export function watchTls(gateway: Gateway, { settings, loaded, setSecureContext }: Secured): Watching {
  const { log, metrics, tls } = gateway
  const tell = teller(gateway, { file: settings.certFile, label: 'tls', what: 'certificates' })
  metrics.certificateExpiry(loaded.material.summary.certificate.notAfterSeconds)
  return new TlsReloader({
    files: settings,
    loaded,
    clock: gateway.clock,
    swap: (material) => {
      setSecureContext(material.secure)
      tls.trust = material.trust
      metrics.certificateExpiry(material.summary.certificate.notAfterSeconds)
    },
    onReload: (reload) => {
      if (reload.result === 'failure') {
        tell.failure(reload.faults)
        return
      }
      const { changed, before, after } = reload
      for (const warning of after.warnings) log.warn({ warning }, 'tls')
      tell.success(changed, [before.summary], [after.summary])
    },
  })
}

interface Edited {
  readonly file: string
  /** Of the metrics. */
  readonly label: string
  readonly what: string
}

/** Says what came of an edit: metrics, log, audit trail. */
function teller(gateway: Gateway, { file, label, what }: Edited) {
  const { log, metrics, trail } = gateway
  metrics.configReload(label, 'success')
  return {
    failure: (faults: readonly Fault[]) => {
      metrics.configReload(label, 'failure')
      log.error({ file, faults: faults.map(describeFault) }, `the last good ${what} stay in force`)
    },
    success: (changed: boolean, before: readonly object[], after: readonly object[]) => {
      metrics.configReload(label, 'success')
      const timestamp = new Date(gateway.clock()).toISOString()
      if (changed) trail.settle(configChangeRecord({ timestamp, file, before, after }))
      log.info({ file, rows: after.length, changed }, `${what} in force`)
    },
  }
}
