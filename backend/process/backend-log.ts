import { isatty } from 'node:tty'
import { styleText } from 'node:util'
import pino, { type Logger } from 'pino'

const COLOURS = {
  trace: 'dim',
  debug: 'dim',
  info: 'cyan',
  warn: 'yellow',
  error: 'red',
  fatal: 'red',
} as const
const PLAIN_WORD = /^[^\s"=]+$/
/** Characters that could steer a terminal or hide text. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\p{Cs}/gu

/** Logs to standard error: lines for people in a terminal, else JSON. */
export function backendLog(): Logger {
  const stderr = pino.destination({ dest: 2, sync: true })
  // A full disk or a closed terminal must not stop the backend.
  stderr.on('error', () => {})
  const options = {
    base: { service: 'backend' },
    // A database error contains the values of its statement: keys, hashes, names.
    redact: { paths: ['err.params', 'err.detail'], remove: true },
  }
  return isatty(2)
    ? pino(options, { write: (json) => void stderr.write(lineForPeople(json)) })
    : pino(options, stderr)
}

/** Makes `12:08:59 info  listening at http://127.0.0.1:3000  service=backend` from JSON. */
function lineForPeople(json: string): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Record<string, unknown>
  const name = pino.levels.labels[Number(level)] as keyof typeof COLOURS
  const words = Object.entries(fields).map(
    ([key, value]) => `${paint('dim', `${printable(key)}=`)}${shown(value)}`,
  )
  const at = paint('dim', new Date(Number(time)).toTimeString().slice(0, 8))
  const head = `${at} ${paint(COLOURS[name], name.padEnd(5))} ${printable(String(msg ?? ''))}`
  return `${[head, ...words].join('  ')}\n`
}

function shown(value: unknown): string {
  return printable(typeof value === 'string' && PLAIN_WORD.test(value) ? value : JSON.stringify(value))
}

function printable(text: string): string {
  return text.replaceAll(UNPRINTABLE, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function paint(colour: (typeof COLOURS)[keyof typeof COLOURS], text: string): string {
  return styleText(colour, text, { stream: process.stderr })
}
