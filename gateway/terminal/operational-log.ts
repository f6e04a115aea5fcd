import { isatty } from 'node:tty'
import { styleText } from 'node:util'
import { destination, type Logger, pino } from 'pino'
import { printable } from './printable.ts'

export function isTerminal(): boolean {
  return isatty(2)
}

interface LogOptions {
  readonly level: string
  readonly format: 'ecs' | 'otlp' | undefined
  readonly service: Service
}

/** Makes the operational log, on standard error. Without `format`: lines for people in a terminal, else pino's JSON. */
export function operationalLog({ level, format, service }: LogOptions): Logger {
  // Synchronous: the log is small, and its last lines must not be lost.
  const stderr = destination({ fd: 2, sync: true })
  // A closed terminal must not stop the gateway.
  stderr.on('error', () => {})
  // `base: null` leaves out process id and host name.
  const options = { level, base: null }
  const inForm = format === undefined ? isTerminal() && logLine : FORMS[format](service)
  return inForm ? pino(options, { write: (line) => void stderr.write(inForm(line)) }) : pino(options, stderr)
}

/** Resource attributes of OpenTelemetry, such as `service.name`. */
type Service = Readonly<Record<string, string>>

/** Each makes a function that turns a line of pino into its form. */
export const FORMS = { ecs: ecsForm, otlp: otlpForm }

/** Our fields in Elastic Common Schema 8.17. Names are not nested, as ecs-logging 1.0 wants for `log.level`. */
const ECS: ReadonlyMap<string, string> = new Map([
  ['requestId', 'http.request.id'],
  ['traceId', 'trace.id'],
  ['code', 'error.code'],
  ['cause', 'error.message'],
  ['ip', 'client.ip'],
  ['file', 'file.path'],
  ['err.type', 'error.type'],
  ['err.message', 'error.message'],
  ['err.stack', 'error.stack_trace'],
])

function ecsForm(service: Service): (json: string) => string {
  const fixed = {
    'ecs.version': '8.17.0',
    'service.name': service['service.name'],
    'service.version': service['service.version'],
    'event.dataset': `${service['service.name']}.log`,
  }
  return (json) => {
    const { time, level, msg: message = '', ...fields } = JSON.parse(json)
    const first = { '@timestamp': new Date(time).toISOString(), 'log.level': LEVELS.get(level)?.[0], message }
    return `${JSON.stringify({ ...first, ...fixed, ...Object.fromEntries(named(fields, ECS)) })}\n`
  }
}

/** Our fields in the semantic conventions 1.44 of OpenTelemetry. */
const ATTRIBUTES: ReadonlyMap<string, string> = new Map([
  ['route', 'http.route'],
  ['code', 'error.type'],
  ['ip', 'client.address'],
  ['file', 'file.path'],
  ['err.type', 'exception.type'],
  ['err.message', 'exception.message'],
  ['err.stack', 'exception.stacktrace'],
])

/** Makes each line a LogsData of OTLP 1 in JSON, as the OTLP file exporter writes it. */
function otlpForm(service: Service): (json: string) => string {
  const resource = JSON.stringify({ attributes: keyValues(Object.entries(service)) })
  const head = `{"resourceLogs":[{"resource":${resource},"scopeLogs":[{"scope":{"name":"countersign"},"logRecords":[`
  return (json) => {
    const { time, level, msg = '', traceId, ...fields } = JSON.parse(json)
    const record = {
      timeUnixNano: `${time}000000`,
      observedTimeUnixNano: `${time}000000`,
      // Pino counts in tens from 10, OpenTelemetry in fours from 1.
      severityNumber: (level / 10) * 4 - 3,
      severityText: LEVELS.get(level)?.[0],
      body: { stringValue: msg },
      attributes: keyValues(named(fields, ATTRIBUTES)),
      traceId,
    }
    return `${head}${JSON.stringify(record)}]}]}]}\n`
  }
}

/** Renames fields. A field that the standard does not know gets the prefix `countersign.`. */
function named(
  { err, ...fields }: Record<string, unknown>,
  names: ReadonlyMap<string, string>,
): [string, unknown][] {
  const { type, message, stack } = (err ?? {}) as Record<string, unknown>
  const all =
    err === undefined ? fields : { ...fields, 'err.type': type, 'err.message': message, 'err.stack': stack }
  return Object.entries(all).map(([key, value]) => [names.get(key) ?? `countersign.${key}`, value])
}

function keyValues(entries: readonly (readonly [key: string, value: unknown])[]) {
  return entries.map(([key, value]) => ({ key, value: anyValue(value) }))
}

function anyValue(value: unknown): object {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  // Integers have 64 bits, which JSON of protocol buffers writes as text.
  if (typeof value === 'number')
    return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value }
  if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValue) } }
  return value === null || value === undefined
    ? {}
    : { kvlistValue: { values: keyValues(Object.entries(value)) } }
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
 * Makes a line for people: `12:08:59 warn  an upstream is unhealthy  upstream=http://127.0.0.1:3000  healthy=false`. Sentences
 * of a list, such as faults, stand on lines of their own. Colours follow NO_COLOR and FORCE_COLOR.
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
