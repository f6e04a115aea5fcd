import { parseClients } from '../config/clients-file.ts'
import { configFiles, ENVIRONMENT } from '../config/environment.ts'
import { describeFault, type Fault, type Parsed } from '../config/faults.ts'
import { type GatewayFile, parseGatewayFile } from '../config/gateway-file.ts'
import { type LoadedFile, loadFile } from '../config/load-file.ts'
import { loadSettings } from '../config/load-settings.ts'
import { issuerWarnings } from '../config/rules/issuer-rules.ts'
import { parseStoreSettings } from '../config/rules/store-address.ts'
import { parseAdminToken } from '../config/secret-line.ts'
import type { Route, TlsSettings } from '../config/settings.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import { parseLimits } from '../limits/table/limits-file.ts'
import { clientIssuerFaults } from '../tls/clients/client-issuers.ts'
import type { ClientTrust } from '../tls/clients/trust.ts'
import { type LoadedTls, loadTls } from '../tls/listener/tls-reload.ts'
import { fileWarnings, idleRowWarnings, NOTHING_LIMITED } from './config-warnings.ts'

/*
 * `npm run validate`: checks the configuration with the parsers that the gateway uses at start. Without arguments it checks
 * the environment and the files that it names; with arguments, only those files. Exit status 0 and one line for each valid
 * file, or 1 and one line for each fault. With `--store` it also connects to the shared store and tries what a gateway needs.
 */

interface Findings {
  readonly good: string[]
  readonly faults: Fault[]
  readonly routes: Route[]
  readonly rows: LimitRow[]
  readonly warnings: string[]
}

const findings: Findings = { good: [], faults: [], routes: [], rows: [], warnings: [] }
const files = process.argv.slice(2).filter((argument) => argument !== '--store')
if (files.length === 0) checkEnvironment(findings)
for (const file of files) checkFile(findings, file)
if (process.argv.includes('--store')) await reachStore(findings)
report(findings)

/** The store that the environment names. Its faults are among those of the environment already. */
async function reachStore({ good, warnings, faults }: Findings): Promise<void> {
  const { value: settings, faults: unusable } = parseStoreSettings(process.env)
  const fault = (reason: string): Fault => ({ file: ENVIRONMENT, path: 'GATEWAY_STORE', reason })
  if (unusable !== undefined) {
    if (files.length > 0) faults.push(...unusable)
    return
  }
  if (settings === undefined) {
    faults.push(fault('is memory, so there is no store to reach'))
    return
  }
  const { checkStore } = await import('../store/store-check.ts')
  const found = await checkStore(settings)
  good.push(...found.good.map((line) => `GATEWAY_STORE: ${line}`))
  warnings.push(...found.warnings.map((line) => `GATEWAY_STORE: ${line}`))
  faults.push(...found.faults.map(fault))
}

function checkEnvironment(found: Findings): void {
  const { configFile, limitsFile, clientsFile } = configFiles(process.env)
  const settings = loadSettings(process.env)
  if (settings.faults !== undefined) found.faults.push(...settings.faults)
  else checkRoutes(found, configFile, settings.value)
  checkRows(found, limitsFile, loadFile(limitsFile, parseLimits))
  found.warnings.push(...fileWarnings(process.env))
  const tls = settings.value?.tls === undefined ? undefined : checkTls(found, settings.value.tls)
  if (settings.value?.adminTokenFile !== undefined) checkAdminToken(found, settings.value.adminTokenFile)
  if (settings.value?.clientsFile !== undefined) checkClients(found, clientsFile, tls?.material.trust)
}

function checkFile(found: Findings, file: string): void {
  const text = loadFile(file, (_, content) => ({ value: content }))
  if (text.faults !== undefined) found.faults.push(...text.faults)
  else if (isTable('clients', text.value.text)) checkClients(found, file)
  else if (isTable('limits', text.value.text)) checkRows(found, file, loadFile(file, parseLimits))
  else {
    const gateway = loadFile(file, parseGatewayFile)
    if (gateway.faults !== undefined) found.faults.push(...gateway.faults)
    else checkRoutes(found, file, gateway.value.value)
  }
}

/** Judged by content, not by name. For a file that is not JSON all parsers report the same fault. */
function isTable(kind: 'clients' | 'limits', text: string): boolean {
  try {
    const { $schema, routes, [kind]: rows } = JSON.parse(text)
    return routes === undefined && (rows !== undefined || String($schema).endsWith(`${kind}.schema.json`))
  } catch {
    return false
  }
}

function checkRoutes(
  found: Findings,
  file: string,
  { routes, issuers }: Pick<GatewayFile, 'routes' | 'issuers'>,
): void {
  found.warnings.push(...issuerWarnings(issuers, routes))
  found.routes.push(...routes)
  found.good.push(`${file}: OK, routes: ${routes.length}`)
}

function checkRows(found: Findings, file: string, table: Parsed<LoadedFile<readonly LimitRow[]>>): void {
  if (table.faults !== undefined) {
    found.faults.push(...table.faults)
    return
  }
  found.rows.push(...table.value.value)
  if (table.value.value.length === 0) found.warnings.push(NOTHING_LIMITED)
  found.good.push(`${file}: OK, limits: ${table.value.value.length}`)
}

function checkClients(found: Findings, file: string, trust?: ClientTrust): void {
  const clients = loadFile(file, parseClients)
  const faults = clients.faults ?? clientIssuerFaults(file, clients.value.value, trust)
  found.faults.push(...faults)
  if (faults.length === 0) found.good.push(`${file}: OK, clients: ${clients.value?.value.rows.length}`)
}

function checkAdminToken(found: Findings, file: string): void {
  const { faults } = loadFile(file, parseAdminToken)
  if (faults === undefined) found.good.push(`${file}: OK`)
  else found.faults.push(...faults)
}

function checkTls(found: Findings, settings: TlsSettings): LoadedTls | undefined {
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
  // Without routes it is not known which limits are reached.
  const idle = routes.length === 0 ? [] : idleRowWarnings(routes, rows)
  for (const warning of [...warnings, ...idle]) console.error(`warning: ${warning}`)
  for (const fault of faults) console.error(describeFault(fault))
  if (faults.length > 0) process.exitCode = 1
}
