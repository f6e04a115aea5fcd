import {
  type ClientTable,
  NO_CLIENTS,
  parseClients,
  webhookClientFaults,
} from '../../config/clients/clients-file.ts'
import type { Fault } from '../../config/faults.ts'
import type { LoadedFile } from '../../config/load-file.ts'
import { oneFile, Reloader } from '../../config/reload/reloader.ts'
import { HASHED_DISK } from '../../config/reload/watch.ts'
import { fingerprint, parseAdminToken } from '../../config/secret-line.ts'
import type { Settings, TlsSettings } from '../../config/settings.ts'
import type { Gateway } from '../../gateway.ts'
import { type Limits, writtenLimits } from '../../limits/table/limit-table.ts'
import { limitFaults, parseLimits } from '../../limits/table/limits-file.ts'
import { clientIssuerFaults } from '../../tls/clients/client-issuers.ts'
import { trustGoodUntilMs } from '../../tls/clients/trust.ts'
import type { TlsMaterial } from '../../tls/listener/tls-context.ts'
import { type LoadedTls, tlsReloader, tlsTexts } from '../../tls/listener/tls-reload.ts'
import type { Staple } from '../../tls/stapling/stapler.ts'
import { clientWarnings, limitWarnings } from '../config-warnings.ts'
import { clientFaults, type StartupConfiguration } from '../startup/read-configuration.ts'
import { parseApart } from './parse-apart.ts'
import { labelOf, type Reports, reporter, type Watching } from './reload-reports.ts'
import { StapleFetch, StapleWatch } from './staples.ts'
import { watchSettings } from './watch-settings.ts'

interface WatchedFiles extends Reports {
  readonly startup: StartupConfiguration
  readonly tls: Gateway['tls']
  /** When one of them throws, the old configuration stays in force. */
  readonly enforce: {
    limits(limits: Limits): void
    clients(table: ClientTable): void
    settings(settings: Settings): void
  }
}

export function watchFiles(watched: WatchedFiles): Watching[] {
  const { enforce, startup, tls, log } = watched
  let inForce = startup.settings
  let table = startup.clients?.value
  let clients: Reloader<ClientTable> | undefined
  const warn = (file: string | undefined, warnings: readonly string[]) => {
    for (const warning of warnings) log.warn({ file, warning }, 'check the configuration')
  }
  const limits = watchLimits(watched, {
    warnOf: ({ rows }) => warn(inForce.limitsFile, limitWarnings(inForce.routes, rows)),
    faultsOf: (edited) => limitFaults(inForce.limitsFile, edited, inForce, table?.rows ?? []),
  })
  const warnOfClients = () => warn(inForce.clientsFile, clientWarnings(inForce.routes, table?.rows ?? []))
  const beginClients = (file: string, loaded: LoadedFile<ClientTable>) => {
    table = loaded.value
    const parse = parseApart('clients', parseClients)
    const edited = { file, label: labelOf(file, startup.settings), what: 'clients' } as const
    clients = new Reloader<ClientTable>({
      ...oneFile(file, loaded, async (name, text) => {
        const parsed = await parse(name, text)
        const faults = parsed.faults ?? [
          ...clientFaults(file, parsed.value, tls.trust),
          ...webhookClientFaults(inForce.configFile, inForce.routes, parsed.value),
          ...limitFaults(inForce.limitsFile, limits.inForce(), inForce, parsed.value.rows),
        ]
        if (faults.length > 0) return { faults }
        if (parsed.value !== undefined) clients?.follow(parsed.value.files, HASHED_DISK)
        return parsed
      }),
      swap: (changed) => {
        enforce.clients(changed)
        table = changed
        warnOfClients()
      },
      onReload: reporter<ClientTable>(watched, edited, ({ before, after }) => ({
        before: before.rows,
        after: after.rows,
      })),
    })
    clients.follow(loaded.value.files, HASHED_DISK)
  }
  const { clientsFile } = startup.settings
  if (clientsFile !== undefined && startup.clients !== undefined) beginClients(clientsFile, startup.clients)
  const settings = watchSettings(watched, {
    settings: inForce,
    texts: startup.texts,
    faultsOf: ({ settings: edited, settings: { configFile, clientsFile, routes }, clients: loaded }) => [
      ...(loaded === undefined ? [] : clientFaults(clientsFile ?? '', loaded.value, tls.trust)),
      ...webhookClientFaults(configFile, routes, loaded?.value ?? table ?? NO_CLIENTS),
      ...limitFaults(edited.limitsFile, limits.inForce(), edited, loaded?.value.rows ?? []),
    ],
    enforce: (edited, loaded) => {
      // First, so that no request finds a route without its clients.
      if (loaded !== undefined) enforce.clients(loaded.value)
      enforce.settings(edited)
      inForce = edited
      if (loaded !== undefined && edited.clientsFile !== undefined) {
        watched.config.clientsRead(edited.clientsFile, loaded.value)
        beginClients(edited.clientsFile, loaded)
      }
      limits.warn()
      warnOfClients()
    },
  })
  warnOfClients()
  const laterClients = { check: async () => clients?.check(), stop: () => clients?.stop() }
  return [limits.watching, settings, laterClients]
}

interface LimitChecks {
  warnOf(limits: Limits): void
  faultsOf(limits: Limits): Fault[]
}

function watchLimits(watched: WatchedFiles, { warnOf, faultsOf }: LimitChecks) {
  const { settings, limits: loaded } = watched.startup
  const file = settings.limitsFile
  let inForce = loaded.value
  const warn = () => warnOf(inForce)
  const edited = { file, label: labelOf(file, settings), what: 'limits' } as const
  const report = reporter<Limits>(watched, edited, ({ before, after }) => ({
    before: writtenLimits(before),
    after: writtenLimits(after),
  }))
  warn()
  const parse = parseApart('limits', parseLimits)
  const watching = new Reloader<Limits>({
    ...oneFile(file, loaded, async (name, text) => {
      const parsed = await parse(name, text)
      const faults = parsed.faults ?? faultsOf(parsed.value)
      return faults.length > 0 ? { faults } : parsed
    }),
    swap: (changed) => {
      watched.enforce.limits(changed)
      inForce = changed
    },
    onReload: (reload) => {
      report(reload)
      if (reload.result === 'success' && reload.changed) warn()
    },
  })
  return { watching, warn, inForce: () => inForce }
}

/** The audit trail gets only a fingerprint of the token. */
export function watchAdminToken(
  reports: Reports,
  file: string,
  loaded: LoadedFile<string>,
  enforce: (token: string) => void,
): Watching {
  const edited = { file, label: 'admin-token', what: 'admin tokens' } as const
  return new Reloader({
    ...oneFile(file, loaded, parseAdminToken),
    swap: enforce,
    onReload: reporter<string>(reports, edited, ({ before, after }) => ({
      before: [fingerprint(before)],
      after: [fingerprint(after)],
    })),
  })
}

interface WatchedTls {
  readonly settings: TlsSettings
  readonly loaded: LoadedTls
  readonly enforce: (material: TlsMaterial) => void
  readonly staple: (staple: Staple | undefined) => void
  readonly clients: () => ClientTable | undefined
}

/** The OCSP response has its own watch, because it changes at other times. */
export function watchTls(reports: Reports, watched: WatchedTls): Watching[] {
  const { settings, loaded, enforce, clients } = watched
  const { log, metrics } = reports
  const staples = stapleSource(reports, watched)
  const files = tlsTexts(settings, loaded).flatMap(([file]) => file ?? [])
  const edited = { file: settings.certFile, files, label: 'tls', what: 'certificates' } as const
  exposeExpiry(metrics, loaded.material)
  const certificates = tlsReloader({
    files: settings,
    loaded,
    clock: reports.clock,
    swap: (material) => {
      const [fault] = clientIssuerFaults('clients', clients() ?? NO_CLIENTS, material.trust)
      if (fault !== undefined) throw new Error(`${fault.path} of the clients in force ${fault.reason}`)
      enforce(material)
      staples?.replaceCertificate(material.chain)
      exposeExpiry(metrics, material)
    },
    onReload: reporter<TlsMaterial>(reports, edited, ({ before, after }) => {
      for (const warning of after.warnings) log.warn({ warning }, 'check the TLS files')
      return { before: [before.summary], after: [after.summary] }
    }),
  })
  return staples === undefined ? [certificates] : [certificates, staples]
}

function stapleSource(reports: Reports, { settings, loaded, staple: enforce }: WatchedTls) {
  const stapled = { chain: loaded.material.chain, enforce }
  if (settings.ocspFile !== undefined) return new StapleWatch(reports, stapled, settings.ocspFile)
  return settings.ocspFetch ? new StapleFetch(reports, stapled) : undefined
}

function exposeExpiry(metrics: Reports['metrics'], { summary, trust }: TlsMaterial): void {
  metrics.gateway_tls_certificate_expiry_timestamp_seconds.set(summary.certificate.notAfterSeconds)
  for (const [what, ms] of Object.entries(trust === undefined ? {} : trustGoodUntilMs(trust)))
    metrics.gateway_tls_client_trust_expiry_timestamp_seconds.set(ms / 1000, what)
}
