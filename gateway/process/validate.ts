import { parseClients } from '../config/clients-file.ts'
import { configFiles } from '../config/environment.ts'
import { describeFault, type Fault, type Parsed } from '../config/faults.ts'
import { parseGatewayFile } from '../config/gateway-file.ts'
import { type LoadedFile, loadFile } from '../config/load-file.ts'
import { loadSettings } from '../config/load-settings.ts'
import { issuerWarnings } from '../config/rules/issuer-rules.ts'
import type { FurtherIssuer, Route, TlsSettings } from '../config/settings.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import { parseLimits } from '../limits/table/limits-file.ts'
import { clientIssuerFaults } from '../tls/clients/client-issuers.ts'
import type { ClientTrust } from '../tls/clients/trust.ts'
import { type LoadedTls, loadTls } from '../tls/listener/tls-reload.ts'
import { fileWarnings, NOTHING_LIMITED, warningsOf } from './config-warnings.ts'

/*
 * `npm run validate`: what the gateway would say of its configuration at start, with the same parsers. Without
 * arguments, the environment and the two files that it names; with arguments, those files and nothing else.
 * Exit status 0 and a line per good file, or 1 and a line per fault, all at once.
 */

interface Findings {
  readonly good: string[]
  readonly faults: Fault[]
  readonly routes: Route[]
  readonly rows: LimitRow[]
  readonly warnings: string[]
}

const findings: Findings = { good: [], faults: [], routes: [], rows: [], warnings: [] }
const files = process.argv.slice(2)
if (files.length === 0) checkEnvironment(findings)
for (const file of files) checkFile(findings, file)
report(findings)

function checkEnvironment(found: Findings): void {
  const { configFile, limitsFile, clientsFile } = configFiles(process.env)
  const settings = loadSettings(process.env)
  if (settings.faults !== undefined) found.faults.push(...settings.faults)
  else keepRoutes(found, configFile, settings.value)
  keepRows(found, limitsFile, loadFile(limitsFile, parseLimits))
  found.warnings.push(...fileWarnings(process.env))
  const tls = settings.value?.tls === undefined ? undefined : keepTls(found, settings.value.tls)
  if (settings.value?.clientsFile !== undefined) keepClients(found, clientsFile, tls?.material.trust)
}

function checkFile(found: Findings, file: string): void {
  const text = loadFile(file, (_, content) => ({ value: content }))
  if (text.faults !== undefined) found.faults.push(...text.faults)
  else if (isClientTable(text.value.text)) keepClients(found, file)
  else if (isLimitTable(text.value.text)) keepRows(found, file, loadFile(file, parseLimits))
  else {
    const gateway = loadFile(file, parseGatewayFile)
    if (gateway.faults !== undefined) found.faults.push(...gateway.faults)
    else keepRoutes(found, file, gateway.value.value)
  }
}

function isClientTable(text: string): boolean {
  try {
    const { $schema, clients, routes } = JSON.parse(text)
    return routes === undefined && (clients !== undefined || String($schema).endsWith('clients.schema.json'))
  } catch {
    return false
  }
}

/** By what is in the file, not by its name; a file that is not JSON gets the same fault from either parser. */
function isLimitTable(text: string): boolean {
  try {
    const { $schema, limits, routes } = JSON.parse(text)
    return routes === undefined && (limits !== undefined || String($schema).endsWith('limits.schema.json'))
  } catch {
    return false
  }
}

interface RoutesAndIssuers {
  readonly routes: readonly Route[]
  readonly issuers: readonly FurtherIssuer[]
}

function keepRoutes(found: Findings, file: string, { routes, issuers }: RoutesAndIssuers): void {
  found.warnings.push(...issuerWarnings(issuers, routes))
  found.routes.push(...routes)
  found.good.push(`${file}: OK, routes: ${routes.length}`)
}

function keepRows(found: Findings, file: string, table: Parsed<LoadedFile<readonly LimitRow[]>>): void {
  if (table.faults !== undefined) {
    found.faults.push(...table.faults)
    return
  }
  found.rows.push(...table.value.value)
  if (table.value.value.length === 0) found.warnings.push(NOTHING_LIMITED)
  found.good.push(`${file}: OK, limits: ${table.value.value.length}`)
}

function keepClients(found: Findings, file: string, trust?: ClientTrust): void {
  const clients = loadFile(file, parseClients)
  const faults = clients.faults ?? clientIssuerFaults(file, clients.value.value, trust)
  found.faults.push(...faults)
  if (faults.length === 0) found.good.push(`${file}: OK, clients: ${clients.value?.value.rows.length}`)
}

function keepTls(found: Findings, settings: TlsSettings): LoadedTls | undefined {
  const { value, faults } = loadTls(settings, Date.now())
  if (faults !== undefined) {
    found.faults.push(...faults)
    return undefined
  }
  const { summary, warnings } = value.material
  const until = new Date(summary.certificate.notAfterSeconds * 1000).toISOString()
  found.good.push(`${settings.certFile}: OK, good until ${until}`)
  found.warnings.push(...warnings)
  return value
}

function report({ good, faults, routes, rows, warnings }: Findings): void {
  for (const line of good) console.log(line)
  // Without routes nothing is known of what reaches a limit.
  const idle = routes.length === 0 ? [] : warningsOf(routes, rows)
  for (const warning of [...warnings, ...idle]) console.error(`warning: ${warning}`)
  for (const fault of faults) console.error(describeFault(fault))
  if (faults.length > 0) process.exitCode = 1
}
