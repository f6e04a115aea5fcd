import { isatty } from 'node:tty'
import { destination, type Logger, pino } from 'pino'
import { logLine } from './log-lines.ts'

/** Whether somebody reads standard error in a terminal. */
export function isTerminal(): boolean {
  return isatty(2)
}

/** The operational log on standard error: lines for people in a terminal, else JSON. */
export function operationalLog(level: string): Logger {
  // Synchronous: the log is small, and its last lines must not be lost.
  const stderr = destination({ fd: 2, sync: true })
  // A closed terminal must not stop the gateway.
  stderr.on('error', () => {})
  // No process id and no name of the host in each line.
  const options = { level, base: null }
  return isTerminal()
    ? pino(options, { write: (line) => void stderr.write(logLine(line)) })
    : pino(options, stderr)
}
