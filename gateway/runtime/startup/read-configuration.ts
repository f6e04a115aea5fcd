import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Logger } from 'pino'
import type { ClockOffset } from '../../audit/clock-offset.ts'
import { clientKeyFaults } from '../../auth/signatures/client-keys.ts'
import { type ClientTable, parseClients, webhookClientFaults } from '../../config/clients/clients-file.ts'
import { configFiles, type Environment, NAMES, parseEnvironment } from '../../config/environment.ts'
import type { Fault, Parsed } from '../../config/faults.ts'
import { type GatewayFile, parseGatewayFile } from '../../config/gateway-file.ts'
import { override } from '../../config/json/json-file.ts'
import { type LoadedFile, loadFile, readLenient } from '../../config/load-file.ts'
import { clientsInUse } from '../../config/load-settings.ts'
import { readSettings, type SettingsTexts } from '../../config/reload/reread-settings.ts'
import { keysThatWait } from '../../config/reload/settings-change.ts'
import { completeTls } from '../../config/rules/tls-rules.ts'
import { parseAdminToken } from '../../config/secret-line.ts'
import type { Settings } from '../../config/settings.ts'
import type { Limits } from '../../limits/table/limit-table.ts'
import { limitFaults, parseLimits } from '../../limits/table/limits-file.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { clientIssuerFaults } from '../../tls/clients/client-issuers.ts'
import type { ClientTrust } from '../../tls/clients/trust.ts'
import { type LoadedTls, loadTls, tlsTexts } from '../../tls/listener/tls-reload.ts'

const NOTHING = { value: undefined, faults: undefined }

/** Reports the faults of all files at once. */
export function readConfiguration(
  env: Environment,
): Parsed<Omit<StartupConfiguration, 'log' | 'storeModule'>> {
  const { parsed: settings, texts } = readSettings(env)
  const { clientsFile, adminTokenFile, tls: tlsSettings } = settings.value ?? filesNamedAnyway(env)
  const { limitsFile } = configFiles(env)
  const limits = loadFile(limitsFile, parseLimits, { namedBy: NAMES.limitsFile })
  const clients =
    clientsFile === undefined ? NOTHING : loadFile(clientsFile, parseClients, { namedBy: NAMES.clientsFile })
  const adminToken =
    adminTokenFile === undefined
      ? NOTHING
      : loadFile(adminTokenFile, parseAdminToken, { namedBy: NAMES.adminTokenFile })
  const tls = tlsSettings === undefined ? NOTHING : loadTls(tlsSettings, Date.now())
  const faults = [settings, limits, clients, adminToken, tls].flatMap((read) => read.faults ?? [])
  if (clientsFile !== undefined && clients.value !== undefined)
    faults.push(...clientFaults(clientsFile, clients.value.value, tls.value?.material.trust))
  if (settings.value !== undefined && clients.value !== undefined)
    faults.push(...webhookClientFaults(settings.value.configFile, settings.value.routes, clients.value.value))
  if (limits.value !== undefined && settings.value !== undefined)
    faults.push(
      ...limitFaults(limitsFile, limits.value.value, settings.value, clients.value?.value.rows ?? []),
    )
  if (faults.length > 0 || settings.value === undefined || limits.value === undefined) return { faults }
  return {
    value: {
      settings: settings.value,
      texts,
      limits: limits.value,
      clients: clients.value,
      tls: tls.value,
      adminToken: adminToken.value,
      version: packageJson.version,
    },
  }
}

/** Finds where clients.json does not fit the clients' keys or the listener's authorities. */
export function clientFaults(file: string, clients: ClientTable, trust: ClientTrust | undefined): Fault[] {
  return [...clientIssuerFaults(file, clients, trust), ...clientKeyFaults(file, clients)]
}

/** Reads the edits that the old process put in force after `read`. The watches report an edit that cannot be used. */
export function readAgain(read: StartupConfiguration, env: Environment): StartupConfiguration {
  if (textsOf(read).every(([file, text]) => textNow(file) === text)) return read
  const { value: edited } = readConfiguration(env)
  const isLive = edited !== undefined && keysThatWait(read.settings, edited.settings).length === 0
  return isLive ? { ...read, ...edited } : read
}

function textsOf({ settings, texts, limits, clients, adminToken, tls }: StartupConfiguration) {
  return [
    ...texts,
    [settings.limitsFile, limits.text],
    [settings.clientsFile, clients?.text],
    [settings.adminTokenFile, adminToken?.text],
    ...(settings.tls === undefined || tls === undefined ? [] : tlsTexts(settings.tls, tls)),
  ] as const
}

function textNow(file: string | undefined): string | undefined {
  try {
    return file === undefined ? undefined : readLenient(file)
  } catch {
    return undefined
  }
}

/** Files that are known despite faults in gateway.json or the environment, so that all faults are reported at once. */
export function filesNamedAnyway(env: Environment) {
  const { configFile } = configFiles(env)
  const { overrides, faults } = parseEnvironment(env)
  const file = loadFile(configFile, parseGatewayFile).value?.value
  const mayOverride = faults.length > 0 && Object.keys(env).some((name) => name.startsWith('GATEWAY_TLS_'))
  const merged = { tls: { ...file?.tls } }
  override(merged, overrides)
  const tls = mayOverride ? undefined : completeTls({ configFile, merged: merged.tls, overrides }).value
  const adminTokenFile = env.GATEWAY_ADMIN_TOKEN_FILE || file?.adminTokenFile
  return { clientsFile: namedClients(env, file), adminTokenFile, tls }
}

/** The file of clients, if used. With a faulty gateway.json, a file beside it or in GATEWAY_CLIENTS counts as used. */
function namedClients(env: Environment, file: GatewayFile | undefined): string | undefined {
  const { configFile, clientsFile } = configFiles(env)
  const isBeside = dirname(resolve(configFile)) === dirname(resolve(clientsFile)) && existsSync(clientsFile)
  const isUsed = file === undefined ? isBeside || env.GATEWAY_CLIENTS !== undefined : clientsInUse(env, file)
  return isUsed ? clientsFile : undefined
}

export interface StartupConfiguration {
  readonly settings: Settings
  readonly texts: SettingsTexts
  readonly limits: LoadedFile<Limits>
  readonly clients: LoadedFile<ClientTable> | undefined
  readonly tls: LoadedTls | undefined
  readonly adminToken?: LoadedFile<string> | undefined
  readonly version: string
  readonly clock?: ClockOffset | undefined
  readonly log: Logger
  readonly storeModule: StoreModule | undefined
}

type StoreModule = typeof import('../../store/store-member.ts')

/** Loads the shared store only when it is configured: its client takes 170 ms and 30 MB. */
export async function loadStoreModule({ store }: Pick<Settings, 'store'>): Promise<StoreModule | undefined> {
  return store === undefined ? undefined : import('../../store/store-member.ts')
}
