import { execFile } from 'node:child_process'

/**
 * Tells systemd how the gateway is (sd_notify, `Type=notify`): `READY=1`, `STOPPING=1`, `MAINPID=<pid>`. Does nothing when it is
 * not started by systemd. Node cannot send datagrams to a Unix socket, so the program `systemd-notify` does: the unit needs
 * `NotifyAccess=all`.
 *
 * @param onFault gets the reason when systemd could not be told
 */
export function notifyServiceManager(states: readonly string[], onFault: (error: Error) => void): void {
  if (process.env.NOTIFY_SOCKET === undefined) return
  execFile('systemd-notify', states, (error) => {
    if (error !== null) onFault(error)
  })
}
