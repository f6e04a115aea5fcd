import { parseClients } from '../../config/clients/clients-file.ts'
import { NAMES } from '../../config/environment.ts'
import type { Fault } from '../../config/faults.ts'
import { loadFile } from '../../config/load-file.ts'
import type { EditedSettings } from '../../config/reload/reread-settings.ts'
import { parseAdminToken } from '../../config/secret-line.ts'
import type { Settings } from '../../config/settings.ts'
import { clientIssuerFaults } from '../../tls/clients/client-issuers.ts'
import { loadTls } from '../../tls/listener/tls-reload.ts'
import { sealKeyFaults } from '../seal-trail.ts'

/**
 * What would keep the gateway from starting with the settings that wait for it: faults in the files that they name. Those in force
 * are watched, and report their own.
 */
export function nextStartFaults({
  needsRestart,
  wanted,
}: Pick<EditedSettings, 'needsRestart' | 'wanted'>): Fault[] {
  const waits = (key: string) => needsRestart.includes(key)
  const faults: Fault[] = []
  if (waits('tls')) faults.push(...tlsFaults(wanted))
  if (waits('adminTokenFile') && wanted.adminTokenFile !== undefined)
    faults.push(
      ...(loadFile(wanted.adminTokenFile, parseAdminToken, { namedBy: NAMES.adminTokenFile }).faults ?? []),
    )
  if (needsRestart.some((key) => key.startsWith('audit.'))) faults.push(...sealKeyFaults(wanted.audit))
  return faults
}

/** Also of clients that do not fit the authorities of their certificates. */
function tlsFaults({ tls, clientsFile }: Settings): readonly Fault[] {
  const { value: loaded, faults } = tls === undefined ? {} : loadTls(tls, Date.now())
  if (faults !== undefined) return faults
  const clients = clientsFile === undefined ? undefined : loadFile(clientsFile, parseClients).value
  if (clientsFile === undefined || clients === undefined) return []
  return clientIssuerFaults(clientsFile, clients.value, loaded?.material.trust)
}
