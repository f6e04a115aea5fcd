import { isIPv4 } from 'node:net'
import type { Fault } from '../faults.ts'
import type { Settings } from '../settings.ts'

/** Whether only programs of this machine reach a listener at this address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}

/** An admin listener that others reach asks for a token, unless the operator says that it need not. */
export function adminFaults(
  { adminHost, adminTokenFile, adminOpen }: Pick<Settings, 'adminHost' | 'adminTokenFile' | 'adminOpen'>,
  place: Pick<Fault, 'file' | 'path'>,
): Fault[] {
  if (isLoopback(adminHost) || adminTokenFile !== undefined || adminOpen) return []
  const reason = `${adminHost} is reached by others than this machine, and metrics and console would be open to all of them: name the file of a token in GATEWAY_ADMIN_TOKEN_FILE, or set GATEWAY_ADMIN_OPEN=true`
  return [{ ...place, reason }]
}
