import { parseClients } from '../../config/clients-file.ts'
import { configFiles, type Environment } from '../../config/environment.ts'
import type { Parsed } from '../../config/faults.ts'
import { loadFile } from '../../config/load-file.ts'
import { readSettings } from '../../config/reload/reread-settings.ts'
import { parseAdminToken } from '../../config/secret-line.ts'
import { parseLimits } from '../../limits/table/limits-file.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { clientIssuerFaults } from '../../tls/clients/client-issuers.ts'
import { loadTls } from '../../tls/listener/tls-reload.ts'
import type { StartupConfiguration } from '../startup-configuration.ts'

const NOTHING = { value: undefined, faults: undefined }

/** Reads every file that a gateway starts with, and reports all faults at once. */
export function readConfiguration(
  env: Environment,
): Parsed<Omit<StartupConfiguration, 'log' | 'storeModule'>> {
  const { parsed: settings, texts } = readSettings(env)
  const { clientsFile, adminTokenFile, tls: tlsSettings } = settings.value ?? {}
  const limits = loadFile(configFiles(env).limitsFile, parseLimits)
  const clients = clientsFile === undefined ? NOTHING : loadFile(clientsFile, parseClients)
  const adminToken = adminTokenFile === undefined ? NOTHING : loadFile(adminTokenFile, parseAdminToken)
  const tls = tlsSettings === undefined ? NOTHING : loadTls(tlsSettings, Date.now())
  const faults = [settings, limits, clients, adminToken, tls].flatMap((read) => read.faults ?? [])
  if (clientsFile !== undefined && clients.value !== undefined)
    faults.push(...clientIssuerFaults(clientsFile, clients.value.value, tls.value?.material.trust))
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
