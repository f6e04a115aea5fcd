import { execFile } from 'node:child_process'

const LONGEST_MS = 5000
/** Node fires a longer timer at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * Sends states to systemd (sd_notify), if systemd has started the gateway. Node cannot send datagrams to a Unix socket,
 * so `systemd-notify` sends them, and the unit needs `NotifyAccess=all`.
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

/**
 * Calls `tell` twice in each period of systemd's watchdog (`WatchdogSec=`). When the event loop hangs, systemd starts the gateway
 * again.
 */
export function startWatchdog(tell: () => void, periodUs = process.env.WATCHDOG_USEC): void {
  if (periodUs === undefined || !/^[1-9][0-9]{0,12}$/.test(periodUs)) return
  setInterval(tell, Math.min(Number(periodUs) / 2000, MAX_TIMER_MS)).unref()
}
