import { execFile } from 'node:child_process'

const LONGEST_MS = 5000

/**
 * Tells systemd how the gateway is (sd_notify, `Type=notify`): `READY=1`, `STOPPING=1`, `MAINPID=<pid>`. Does nothing when it is
 * not started by systemd. Node cannot send datagrams to a Unix socket, so the program `systemd-notify` does: the unit needs
 * `NotifyAccess=all`.
 *
 * @param onFault gets the reason when systemd could not be told
 * @returns a promise that resolves when systemd has been told, or cannot be
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
