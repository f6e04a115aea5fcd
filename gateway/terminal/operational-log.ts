import { isatty } from 'node:tty'
import { styleText } from 'node:util'
import { destination, type Logger, pino } from 'pino'
import { printable } from './printable.ts'

/** True when somebody reads standard error in a terminal. */
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

/** Levels of pino. */
const LEVELS: ReadonlyMap<number, readonly [name: string, colour: 'dim' | 'cyan' | 'yellow' | 'red']> =
  new Map([
    [10, ['trace', 'dim']],
    [20, ['debug', 'dim']],
    [30, ['info', 'cyan']],
    [40, ['warn', 'yellow']],
    [50, ['error', 'red']],
    [60, ['fatal', 'red']],
  ] as const)
const PLAIN_WORD = /^[^\s"=]+$/

/**
 * One JSON line of the log as a person reads it: `12:08:59 warn  upstream health  upstream=http://127.0.0.1:3000 healthy=false`.
 * Sentences of a list, such as faults, stand on lines of their own. Colours follow NO_COLOR and FORCE_COLOR.
 */
export function logLine(json: string): string {
  const line = parse(json)
  if (line === undefined) return `${printable(json.trimEnd())}\n`
  const { level, time, msg, ...fields } = line
  const [name, colour] = LEVELS.get(Number(level)) ?? ['log', 'dim']
  const at = new Date(Number(time)).toTimeString().slice(0, 8)
  const words: string[] = []
  const below: string[] = []
  for (const [key, value] of Object.entries(fields)) {
    if (Array.isArray(value) && value.some((one) => /\s/.test(String(one)))) below.push(...value.map(String))
    else words.push(`${paint('dim', `${printable(key)}=`)}${shown(value)}`)
  }
  const head = [paint('dim', at), paint(colour, name.padEnd(5)), printable(String(msg ?? ''))].join(' ')
  const lines = below.map((sentence) => `               ${printable(sentence)}\n`)
  return `${[head, ...words].join('  ')}\n${lines.join('')}`
}

function shown(value: unknown): string {
  if (typeof value === 'string' && PLAIN_WORD.test(value)) return printable(value)
  return printable(JSON.stringify(value) ?? '')
}

function paint(colour: 'dim' | 'cyan' | 'yellow' | 'red', text: string): string {
  return styleText(colour, text, { stream: process.stderr })
}

function parse(json: string): Record<string, unknown> | undefined {
  try {
    const line: unknown = JSON.parse(json)
    return typeof line === 'object' && line !== null ? (line as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
