import { execFile } from 'node:child_process'

const LONGEST_MS = 5000

/**
 * Tells systemd (sd_notify), if it has started the gateway. Node cannot send datagrams to a Unix socket, so `systemd-notify`
 * does: the unit needs `NotifyAccess=all`.
 */
export function notifyServiceManager(
  states: readonly string[],
  onFault: (error: Error) => void,
): Promise<void> {
  if (process.env.NOTIFY_SOCKET === undefined) return Promise.resolve()
  return new Promise((resolve) => {
    execFile('systemd-notify', states, { timeout: LONGEST_MS }, (error) => {
      if (error !== null) onFault(error)
      resolve()
    })
  })
}
