import { isatty } from 'node:tty'
import { destination, type Logger, pino } from 'pino'
import { logLine } from './log-lines.ts'

/** Whether somebody reads standard error in a terminal. Worker threads have no stream of their own to ask. */
export function isTerminal(): boolean {
  return isatty(2)
}

/** The operational log on standard error: lines for people in a terminal, else JSON. @param base is in each line */
export function operationalLog(level: string, base: Readonly<Record<string, string>> | null): Logger {
  // Synchronous: the log is small, and its last lines must not be lost.
  const stderr = destination({ fd: 2, sync: true })
  // A closed terminal must not stop the gateway.
  stderr.on('error', () => {})
  const options = { level, base }
  return isTerminal()
    ? pino(options, { write: (line) => void stderr.write(logLine(line)) })
    : pino(options, stderr)
}
