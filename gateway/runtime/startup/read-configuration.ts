import { parseClients, webhookClientFaults } from '../../config/clients/clients-file.ts'
import { configFiles, type Environment, NAMES } from '../../config/environment.ts'
import type { Parsed } from '../../config/faults.ts'
import { loadFile, readLenient } from '../../config/load-file.ts'
import { readSettings } from '../../config/reload/reread-settings.ts'
import { keysThatWait } from '../../config/reload/settings-change.ts'
import { parseAdminToken } from '../../config/secret-line.ts'
import { parseLimits } from '../../limits/table/limits-file.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { clientIssuerFaults } from '../../tls/clients/client-issuers.ts'
import { loadTls, tlsTexts } from '../../tls/listener/tls-reload.ts'
import type { StartupConfiguration } from '../startup-configuration.ts'
import { filesNamedAnyway } from './named-files.ts'

const NOTHING = { value: undefined, faults: undefined }

/** Reads every file that a gateway starts with, and reports all faults at once. */
export function readConfiguration(
  env: Environment,
): Parsed<Omit<StartupConfiguration, 'log' | 'storeModule'>> {
  const { parsed: settings, texts } = readSettings(env)
  const { clientsFile, adminTokenFile, tls: tlsSettings } = settings.value ?? filesNamedAnyway(env)
  const limits = loadFile(configFiles(env).limitsFile, parseLimits, { namedBy: NAMES.limitsFile })
  const clients =
    clientsFile === undefined ? NOTHING : loadFile(clientsFile, parseClients, { namedBy: NAMES.clientsFile })
  const adminToken =
    adminTokenFile === undefined
      ? NOTHING
      : loadFile(adminTokenFile, parseAdminToken, { namedBy: NAMES.adminTokenFile })
  const tls = tlsSettings === undefined ? NOTHING : loadTls(tlsSettings, Date.now())
  const faults = [settings, limits, clients, adminToken, tls].flatMap((read) => read.faults ?? [])
  if (clientsFile !== undefined && clients.value !== undefined)
    faults.push(...clientIssuerFaults(clientsFile, clients.value.value, tls.value?.material.trust))
  if (settings.value !== undefined && clients.value !== undefined)
    faults.push(...webhookClientFaults(settings.value.configFile, settings.value.routes, clients.value.value))
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

/**
 * For a process that takes over: an edit that came since it read the files is in force at the process before, and must stay so. An
 * edit that has a fault, or needs a restart, is left to the watches.
 *
 * @returns `read` itself when nothing was edited
 */
export function readAgain(read: StartupConfiguration, env: Environment): StartupConfiguration {
  if (textsOf(read).every(([file, text]) => textNow(file) === text)) return read
  const { value: edited } = readConfiguration(env)
  const isLive = edited !== undefined && keysThatWait(read.settings, edited.settings).length === 0
  return isLive ? { ...read, ...edited } : read
}

/** Every file that was read, and what was in it. */
function textsOf({ settings, texts, limits, clients, adminToken, tls }: StartupConfiguration) {
  return [
    ...texts,
    [settings.limitsFile, limits.text],
    [settings.clientsFile, clients?.text],
    [settings.adminTokenFile, adminToken?.text],
    ...(settings.tls === undefined || tls === undefined ? [] : tlsTexts(settings.tls, tls)),
  ] as const
}

/** Undefined for no file, and for one that cannot be read. */
function textNow(file: string | undefined): string | undefined {
  try {
    return file === undefined ? undefined : readLenient(file)
  } catch {
    return undefined
  }
}
