import { ConfigInForce, type ConfigReport } from '../admin/config-in-force.ts'
import { credentialsIn } from '../audit/segments/bucket-credentials.ts'
import { type ClientTable, parseClients, webhookClientFaults } from '../config/clients/clients-file.ts'
import { configFiles, type Environment, NAMES } from '../config/environment.ts'
import { describeFault, ENVIRONMENT, type Fault, type Parsed, showFault } from '../config/faults.ts'
import { type GatewayFile, parseGatewayFile } from '../config/gateway-file.ts'
import { withoutMark } from '../config/json/json-file.ts'
import { loadFile } from '../config/load-file.ts'
import { loadSettings, otherFaults } from '../config/load-settings.ts'
import { outOfTime } from '../config/rules/certificate-times.ts'
import { parseStoreSettings } from '../config/rules/store-address.ts'
import { idempotencyKeysOf, parseAdminToken, readMaskKey } from '../config/secret-line.ts'
import type { Route, Settings, TlsSettings } from '../config/settings.ts'
import { upstreamCertificates } from '../config/upstreams/upstream-tls-files.ts'
import type { LimitRow, Limits } from '../limits/table/limit-table.ts'
import { limitFaults, parseLimits } from '../limits/table/limits-file.ts'
import {
  clientWarnings,
  fileWarnings,
  idleRowWarnings,
  NOTHING_LIMITED,
  settingsWarnings,
} from '../runtime/config-warnings.ts'
import { readStaple } from '../runtime/reload/staples.ts'
import { ownerWarnings, sealKeyFaults, trailWarnings } from '../runtime/seal-trail.ts'
import { clientFaults, filesNamedAnyway, readConfiguration } from '../runtime/startup/read-configuration.ts'
import type { ClientTrust } from '../tls/clients/trust.ts'
import { timeWarning } from '../tls/listener/server-certificate.ts'
import { type LoadedTls, loadTls } from '../tls/listener/tls-reload.ts'
import { responderOf } from '../tls/stapling/ocsp-response.ts'
import { type Chain, issuedCertificate, judgeStaple } from '../tls/stapling/stapler.ts'
import { askAdmin, TOKEN_FLAG } from './admin-client.ts'
import {
  CONFIG_FLAGS,
  type Command,
  CommandFault,
  complain,
  EXIT,
  environmentOf,
  JSON_FLAG,
  print,
  printJson,
  UsageFault,
} from './command.ts'
import { compareConfig } from './compare-config.ts'

interface Findings {
  readonly good: string[]
  readonly faults: Fault[]
  readonly routes: Route[]
  readonly rows: LimitRow[]
  readonly clients: ClientTable['rows'][number][]
  readonly warnings: string[]
}

export const command: Command = {
  words: '[FILE…]',
  flags: {
    ...CONFIG_FLAGS,
    store: {
      about:
        'also connects to $GATEWAY_STORE, and tries every store command that a gateway needs; waits 2 s for each reply',
    },
    against: {
      value: 'URL',
      about: 'also shows what would change in the running gateway with this admin listener',
    },
    ...TOKEN_FLAG,
    ...JSON_FLAG,
  },
  about: [
    'Checks the environment and every file named there or in gateway.json, or only the FILEs, each recognised by its content. It uses the parsers of the gateway, and shows all faults with their lines. While gateway.json has a fault, some files that it names are not checked.',
    'When FILE is a gateway.json, the command warns of missing keys that may come from the environment.',
    'A warning, for example of a limit that no route reaches, does not change the exit code. A certificate or revocation list that has expired, or is not valid yet, is a fault here, although a gateway starts with it.',
  ],
  examples: [
    ['countersign validate', 'the configuration here'],
    ['countersign validate config/limits.json', 'one file'],
    [
      'countersign validate --against http://127.0.0.1:9090',
      'where this gateway differs from the files here',
    ],
  ],
  fault: 'there are faults, or the store or the gateway cannot be reached',
  async run({ words: files, flags }) {
    const against = flags.against
    if (against !== undefined && files.length > 0)
      throw new UsageFault('with --against compares the whole configuration: leave out FILE')
    const env = environmentOf(flags)
    const found: Findings = { good: [], faults: [], routes: [], rows: [], clients: [], warnings: [] }
    if (files.length === 0) checkEnvironment(found, env)
    for (const file of files) checkFile(found, file)
    if (flags.store !== undefined) await reachStore(found, env, files.length > 0)
    const { good, faults } = found
    const warnings = warningsOf(found)
    if (flags.json === undefined) {
      for (const line of good) print(line)
      for (const warning of warnings) complain(`warning: ${warning}`)
      for (const fault of faults) complain(showFault(fault))
    }
    const asked = { flags: { ...flags, admin: against }, env }
    const asFault = (error: Error) => {
      if (flags.json === undefined || !(error instanceof CommandFault)) throw error
      faults.push({ file: 'the gateway', path: '/config', reason: error.message })
    }
    const compared = faults.length === 0 && against ? await compareWith(asked).catch(asFault) : undefined
    const isGood = faults.length === 0
    if (flags.json !== undefined)
      printJson({ valid: isGood, good, warnings, faults, changes: compared?.changes })
    else if (compared?.changes.length === 0) print(`${compared.url}: the same configuration is in force`)
    else if (compared !== undefined)
      print([`${compared.url}: what would change`, ...compared.changes].join('\n'))
    return isGood ? EXIT.good : EXIT.fault
  },
}

async function compareWith(
  asked: Pick<Parameters<typeof askAdmin>[0], 'flags' | 'env'>,
): Promise<{ readonly url: string; readonly changes: readonly string[] }> {
  const answer = await askAdmin({ method: 'GET', path: '/config', ...asked })
  const { value, faults } = readConfiguration(asked.env)
  if (faults !== undefined) throw new CommandFault(faults.map(showFault).join('\n'))
  return { url: answer.url, changes: compareConfig(reportIn(answer), new ConfigInForce(value).report()) }
}

function reportIn({ url, status, body }: Awaited<ReturnType<typeof askAdmin>>): ConfigReport {
  try {
    const report: Partial<ConfigReport> | null = JSON.parse(body)
    if (status === 200 && typeof report?.parts === 'object' && report.parts !== null)
      return report as ConfigReport
  } catch {}
  throw new CommandFault(`${url} responded ${status} without a configuration`)
}

function soundIn<T>({ faults }: Findings, parsed: Parsed<T>): T | undefined {
  if (parsed.faults !== undefined) faults.push(...parsed.faults)
  return parsed.value
}

/** @param isNew true where the environment was not checked before */
async function reachStore(found: Findings, env: Environment, isNew: boolean): Promise<void> {
  const { value: settings, faults: unusable } = parseStoreSettings(env)
  const fault = (reason: string): Fault => ({ file: ENVIRONMENT, path: 'GATEWAY_STORE', reason })
  if (unusable !== undefined) {
    if (isNew) found.faults.push(...unusable)
    return
  }
  if (settings === undefined) {
    found.faults.push(fault('is memory, so there is no store to reach'))
    return
  }
  const { checkStore } = await import('../store/store-check.ts')
  const { value: file } = loadSettings(env)
  const { good, warnings, faults } = await checkStore(settings, {
    maskKeyFile: file?.routes.some(({ mask }) => mask) ? [readMaskKey(file)] : undefined,
    idempotencyKeyFile: file?.routes.some(({ idempotency }) => idempotency)
      ? idempotencyKeysOf(file)
      : undefined,
  })
  found.good.push(...good.map((line) => `GATEWAY_STORE: ${line}`))
  found.warnings.push(...warnings.map((line) => `GATEWAY_STORE: ${line}`))
  found.faults.push(...faults.map(fault))
}

function checkEnvironment(found: Findings, env: Environment): void {
  const { configFile, limitsFile } = configFiles(env)
  const settings = soundIn(found, loadSettings(env))
  if (settings !== undefined) checkRoutes(found, configFile, settings)
  const limits = checkRows(found, limitsFile, { namedBy: NAMES.limitsFile })
  found.warnings.push(...fileWarnings(env))
  const named = settings ?? filesNamedAnyway(env)
  const tls = named.tls && checkTls(found, named.tls)
  if (named.adminTokenFile !== undefined) checkAdminToken(found, named.adminTokenFile)
  if (named.clientsFile !== undefined) checkClients(found, named.clientsFile, tls?.material.trust, settings)
  if (limits !== undefined && settings !== undefined)
    found.faults.push(...limitFaults(limitsFile, limits, settings, found.clients))
  if (settings !== undefined) {
    checkAuditKeys(found, settings)
    found.faults.push(...outOfTime(upstreamCertificates(settings), Date.now()))
  }
}

function checkFile(found: Findings, file: string): void {
  const text = soundIn(
    found,
    loadFile(file, (_, content) => ({ value: content })),
  )?.text
  if (text === undefined) return
  if (isTable('clients', text)) checkClients(found, file)
  else if (isTable('limits', text)) checkRows(found, file)
  else {
    const gateway = soundIn(found, loadFile(file, parseGatewayFile))
    if (gateway !== undefined) checkGateway(found, file, gateway.value)
  }
}

/** Checks gateway.json and files that it names. The gateway's environment, unknown here, may give what is missing. */
function checkGateway(found: Findings, configFile: string, file: GatewayFile): void {
  const faults = otherFaults({ env: {}, configFile, file, readFile: undefined })
  found.faults.push(...faults)
  const known = new Set(faults.map(describeFault))
  const open = (loadSettings({ GATEWAY_CONFIG: configFile }).faults ?? []).map(describeFault)
  for (const fault of open)
    if (!known.has(fault)) found.warnings.push(`${fault}; unless the environment says otherwise`)
  const { tls, adminTokenFile } = filesNamedAnyway({ GATEWAY_CONFIG: configFile })
  if (tls !== undefined) checkTls(found, tls)
  if (adminTokenFile !== undefined) checkAdminToken(found, adminTokenFile)
  found.faults.push(...sealKeyFaults(file.audit))
  if (faults.length === 0) checkRoutes(found, configFile, file)
}

/** Judges by content, not name. For a file that is not JSON all parsers report the same fault. */
function isTable(kind: 'clients' | 'limits', text: string): boolean {
  try {
    const { $schema, routes, [kind]: rows } = JSON.parse(withoutMark(text))
    return routes === undefined && (rows !== undefined || String($schema).endsWith(`${kind}.schema.json`))
  } catch {
    return false
  }
}

function checkRoutes(found: Findings, file: string, settings: Parameters<typeof settingsWarnings>[0]): void {
  const { routes } = settings
  found.warnings.push(...settingsWarnings(settings))
  found.routes.push(...routes)
  found.good.push(`${file}: OK, routes: ${routes.length}`)
}

function checkRows(
  found: Findings,
  file: string,
  options?: Parameters<typeof loadFile>[2],
): Limits | undefined {
  const limits = soundIn(found, loadFile(file, parseLimits, options))?.value
  if (limits === undefined) return undefined
  const { rows } = limits
  found.rows.push(...rows)
  if (rows.length === 0) found.warnings.push(NOTHING_LIMITED)
  found.good.push(`${file}: OK, limits: ${rows.length}`)
  return limits
}

function checkClients(found: Findings, file: string, trust?: ClientTrust, settings?: Settings): void {
  const clients = soundIn(found, loadFile(file, parseClients, { namedBy: NAMES.clientsFile }))?.value
  if (clients === undefined) return
  const faults = clientFaults(file, clients, trust)
  if (settings !== undefined)
    faults.push(...webhookClientFaults(settings.configFile, settings.routes, clients))
  found.clients.push(...clients.rows)
  found.faults.push(...faults)
  if (faults.length === 0) found.good.push(`${file}: OK, clients: ${clients.rows.length}`)
}

function checkAdminToken(found: Findings, file: string): void {
  const token = soundIn(found, loadFile(file, parseAdminToken, { namedBy: NAMES.adminTokenFile }))
  if (token !== undefined) found.good.push(`${file}: OK`)
}

function checkAuditKeys(found: Findings, { audit }: Settings): void {
  found.faults.push(...sealKeyFaults(audit))
  found.warnings.push(...trailWarnings(audit), ...ownerWarnings(audit))
  const credentials = audit.ship?.s3?.credentialsFile
  if (credentials === undefined) return
  try {
    credentialsIn(credentials)
  } catch (error) {
    // The gateway starts without credentials, and reads them each time it ships.
    const { message } = error as Error
    found.warnings.push(`audit.ship: nothing can be shipped: ${message}`)
  }
}

function checkTls(found: Findings, settings: TlsSettings): LoadedTls | undefined {
  const nowMs = Date.now()
  const { certFile, ocspFile, ocspFetch } = settings
  const loaded = soundIn(found, loadTls(settings, nowMs))
  if (loaded === undefined) return undefined
  const { summary, warnings, dated, chain } = loaded.material
  const late = outOfTime(dated, nowMs)
  const until = new Date(summary.certificate.notAfterSeconds * 1000).toISOString()
  if (!late.some(({ file }) => file === certFile)) found.good.push(`${certFile}: OK, good until ${until}`)
  found.faults.push(...late)
  const known = late.map(timeWarning)
  found.warnings.push(...warnings.filter((warning) => !known.includes(warning)))
  if (ocspFile !== undefined) checkStaple(found, ocspFile, chain)
  if (ocspFetch && responderOf(chain[0]) === undefined)
    found.warnings.push(`${certFile}: the certificate names no OCSP responder with an http URL`)
  else if (ocspFetch && issuedCertificate(chain) === undefined)
    found.warnings.push(`${certFile}: does not hold the issuer, so that no OCSP response can be checked`)
  return loaded
}

/** The gateway starts without a staple, and a renewal may write it later. */
function checkStaple(found: Findings, file: string, chain: Chain): void {
  const judged = judgeStaple(readStaple(file), chain, Date.now())
  if ('fault' in judged) found.warnings.push(`${file}: is not sent to clients: ${judged.fault}`)
  else found.good.push(`${file}: OK, sent until ${new Date(judged.staple.untilMs).toISOString()}`)
}

function warningsOf({ routes, rows, clients, warnings }: Findings): string[] {
  // Without routes the reached limits and clients are unknown.
  const idle =
    routes.length === 0 ? [] : [...idleRowWarnings(routes, rows), ...clientWarnings(routes, clients)]
  return [...warnings, ...idle]
}
