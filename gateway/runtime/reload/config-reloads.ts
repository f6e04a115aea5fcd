import type { ClientTable } from '../../config/clients/clients-file.ts'
import { NO_CLIENTS, parseClients, webhookClientFaults } from '../../config/clients/clients-file.ts'
import type { Fault } from '../../config/faults.ts'
import type { LoadedFile } from '../../config/load-file.ts'
import { oneFile, Reloader } from '../../config/reload/reloader.ts'
import { fingerprint, parseAdminToken } from '../../config/secret-line.ts'
import type { Settings, TlsSettings } from '../../config/settings.ts'
import type { Gateway } from '../../gateway.ts'
import { type LimitRow, writtenRow } from '../../limits/table/limit-row.ts'
import { parseLimits } from '../../limits/table/limits-file.ts'
import { clientIssuerFaults } from '../../tls/clients/client-issuers.ts'
import { trustGoodUntilMs } from '../../tls/clients/trust.ts'
import type { TlsMaterial } from '../../tls/listener/tls-context.ts'
import { type LoadedTls, tlsReloader, tlsTexts } from '../../tls/listener/tls-reload.ts'
import { clientWarnings, limitWarnings } from '../config-warnings.ts'
import type { StartupConfiguration } from '../startup/read-configuration.ts'
import { parseApart } from './parse-apart.ts'
import { labelOf, type Reports, reporter, type Watching } from './reload-reports.ts'
import { StapleFetch, type StapleSource, StapleWatch, type WatchedStaple } from './staples.ts'
import { watchSettings } from './watch-settings.ts'

interface WatchedFiles extends Reports {
  readonly startup: StartupConfiguration
  readonly tls: Gateway['tls']
  /** Puts an edit in force. When it throws, the old configuration stays in force. */
  readonly enforce: {
    limits(rows: readonly LimitRow[]): void
    clients(table: ClientTable): void
    settings(settings: Settings): void
  }
}

/** Puts each valid edit in force, counts it and records it in the audit trail; reports the faults of an invalid one. */
export function watchFiles(watched: WatchedFiles): Watching[] {
  const { enforce, startup, tls } = watched
  const { clientsFile } = startup.settings
  /** As read from the files: a port that the system chose is not among them. */
  let inForce = startup.settings
  let rows = startup.limits.value
  let table = startup.clients?.value
  const warn = () => warnOfLimits(watched, inForce, rows)
  const limits = watchLimits(watched, {
    ...enforce,
    limits: (edited) => {
      enforce.limits(edited)
      rows = edited
    },
    warn,
  })
  const clients: Reloader<ClientTable>[] = []
  const warnOfClients = () => {
    for (const warning of clientWarnings(inForce.routes, table?.rows ?? []))
      watched.log.warn({ file: inForce.clientsFile, warning }, 'configuration')
  }
  const begin = (file: string, loaded: LoadedFile<ClientTable>) => {
    table = loaded.value
    const edits: ClientEdits = {
      swap: (edited) => {
        enforce.clients(edited)
        table = edited
        warnOfClients()
      },
      faultsOf: (edited) => [
        ...clientIssuerFaults(file, edited, tls.trust),
        ...webhookClientFaults(inForce.configFile, inForce.routes, edited),
      ],
    }
    clients.push(watchClients(watched, { file, loaded, edits }))
  }
  if (clientsFile !== undefined && startup.clients !== undefined) begin(clientsFile, startup.clients)
  const settings = watchSettings(watched, {
    settings: inForce,
    texts: startup.texts,
    faultsOf: ({ settings: { configFile, clientsFile, routes }, clients: loaded }) => [
      ...(loaded === undefined ? [] : clientIssuerFaults(clientsFile ?? '', loaded.value, tls.trust)),
      ...webhookClientFaults(configFile, routes, loaded?.value ?? table ?? NO_CLIENTS),
    ],
    enforce: (edited, loaded) => {
      // First, so that no request finds a route without its clients.
      if (loaded !== undefined) enforce.clients(loaded.value)
      enforce.settings(edited)
      inForce = edited
      if (loaded !== undefined && edited.clientsFile !== undefined) {
        watched.config.clientsRead(edited.clientsFile, loaded.value)
        begin(edited.clientsFile, loaded)
      }
      warn()
      warnOfClients()
    },
  })
  warnOfClients()
  const allClients: Watching = {
    check: async () => {
      for (const one of clients) await one.check()
    },
    stop: () => clients.forEach((one) => void one.stop()),
  }
  return [limits, settings, allClients]
}

function warnOfLimits({ log }: WatchedFiles, settings: Settings, rows: readonly LimitRow[]): void {
  for (const warning of limitWarnings(settings.routes, rows)) {
    log.warn({ file: settings.limitsFile, warning }, 'configuration')
  }
}

interface LimitEdits {
  limits(rows: readonly LimitRow[]): void
  warn(): void
}

function watchLimits(watched: WatchedFiles, { limits: swap, warn }: LimitEdits): Watching {
  const { settings, limits: loaded } = watched.startup
  const file = settings.limitsFile
  const edited = { file, label: labelOf(file, settings), what: 'limits' } as const
  const report = reporter<readonly LimitRow[]>(watched, edited, ({ before, after }) => ({
    before: before.map(writtenRow),
    after: after.map(writtenRow),
  }))
  warn()
  return new Reloader({
    ...oneFile(file, loaded, parseApart('limits', parseLimits)),
    swap,
    onReload: (reload) => {
      report(reload)
      if (reload.result === 'success' && reload.changed) warn()
    },
  })
}

interface ClientEdits {
  readonly swap: (table: ClientTable) => void
  faultsOf(table: ClientTable): readonly Fault[]
}

function watchClients(
  watched: WatchedFiles,
  {
    file,
    loaded,
    edits,
  }: { readonly file: string; readonly loaded: LoadedFile<ClientTable>; readonly edits: ClientEdits },
): Reloader<ClientTable> {
  const edited = { file, label: labelOf(file, watched.startup.settings), what: 'clients' } as const
  const parse = parseApart('clients', parseClients)
  return new Reloader({
    ...oneFile(file, loaded, async (name, text) => {
      const parsed = await parse(name, text)
      const faults = parsed.faults ?? edits.faultsOf(parsed.value)
      return faults.length > 0 ? { faults } : parsed
    }),
    swap: edits.swap,
    onReload: reporter<ClientTable>(watched, edited, ({ before, after }) => ({
      before: before.rows,
      after: after.rows,
    })),
  })
}

interface WatchedToken {
  readonly file: string
  readonly loaded: LoadedFile<string>
  readonly enforce: (token: string) => void
}

/** Puts each edit of the admin token in force. The audit trail has its fingerprint only. */
export function watchAdminToken(reports: Reports, { file, loaded, enforce }: WatchedToken): Watching {
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
  readonly staple: WatchedStaple['enforce']
  readonly clients: () => ClientTable | undefined
}

/** The response of OCSP is watched by itself: others write it, at other times. */
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
      for (const warning of after.warnings) log.warn({ warning }, 'tls')
      return { before: [before.summary], after: [after.summary] }
    }),
  })
  return staples === undefined ? [certificates] : [certificates, staples]
}

function stapleSource(
  reports: Reports,
  { settings, loaded, staple: enforce }: WatchedTls,
): StapleSource | undefined {
  const { chain } = loaded.material
  const { ocspFile: file, ocspFetch } = settings
  if (file !== undefined) return new StapleWatch(reports, { file, chain, enforce })
  return ocspFetch ? new StapleFetch(reports, { chain, enforce }) : undefined
}

function exposeExpiry(metrics: Reports['metrics'], { summary, trust }: TlsMaterial): void {
  metrics.gateway_tls_certificate_expiry_timestamp_seconds.set(summary.certificate.notAfterSeconds)
  for (const [what, ms] of Object.entries(trust === undefined ? {} : trustGoodUntilMs(trust)))
    metrics.gateway_tls_client_trust_expiry_timestamp_seconds.set(ms / 1000, what)
}
