import type { Environment } from '../environment.ts'
import type { Fault } from '../faults.ts'
import { describeValue } from '../json/schema-check.ts'
import { urlFault } from './value-rules.ts'

export type TracingVariables = NonNullable<ReturnType<typeof parseTracingVariables>['value']>

const TRACES_ENDPOINT = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'
const MAX_MS = 600_000
const SAMPLER = /^(parentbased_)?(always_on|always_off|traceidratio)$/
const RATIO = /^(?:0|1|[01]?\.\d+|1\.0*)$/

/**
 * Reads variables of OpenTelemetry. An unknown one is no fault, because other programs share them. A value that the
 * gateway cannot follow is a fault.
 */
export function parseTracingVariables(env: Environment) {
  const faults: Fault[] = []
  /** An empty variable counts as not set (OpenTelemetry says so). @param parse throws an Error for the operator */
  const read = <T>(name: string, parse: (text: string) => T): T | undefined => {
    const text = env[name] || undefined
    try {
      return text === undefined ? undefined : parse(text)
    } catch (error) {
      faults.push({ file: 'environment', path: name, reason: (error as Error).message })
      return undefined
    }
  }
  const headersVariable = exporterVariable(env, 'HEADERS')
  const caVariable = exporterVariable(env, 'CERTIFICATE')
  const endpoint = exporterVariable(env, 'ENDPOINT')
  const variables = {
    isOff: env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none',
    endpoint: read(endpoint, (text) =>
      endpoint === TRACES_ENDPOINT ? url(text) : `${url(text).replace(/\/$/, '')}/v1/traces`,
    ),
    headers: read(headersVariable, (text) => Object.entries(pairs(text))),
    headersVariable,
    caFile: env[caVariable] || undefined,
    caVariable,
    compression: read(exporterVariable(env, 'COMPRESSION'), (text) => choice(text, ['gzip', 'none'])),
    timeoutMs: read(exporterVariable(env, 'TIMEOUT'), (text) => whole(text, 1, MAX_MS)),
    delayMs: read('OTEL_BSP_SCHEDULE_DELAY', (text) => whole(text, 1, MAX_MS)),
    maxQueue: read('OTEL_BSP_MAX_QUEUE_SIZE', (text) => whole(text, 128, 65_536)),
    serviceName: env.OTEL_SERVICE_NAME || undefined,
    resource: read('OTEL_RESOURCE_ATTRIBUTES', pairs),
    sampler: read('OTEL_TRACES_SAMPLER', (text) => samplerOf(text, env.OTEL_TRACES_SAMPLER_ARG)),
    knownMethods: read('OTEL_INSTRUMENTATION_HTTP_KNOWN_METHODS', (text) =>
      text.split(',').map((method) => method.trim()),
    ),
  }
  read(exporterVariable(env, 'PROTOCOL'), (text) => choice(text, ['http/json', 'http/protobuf']))
  read('OTEL_TRACES_EXPORTER', (text) => choice(text, ['otlp', 'none']))
  return faults.length > 0 && !variables.isOff ? { faults } : { value: variables }
}

/** The variable for traces if it is set, else the one for all signals. */
function exporterVariable(env: Environment, end: string): string {
  const ofTraces = `OTEL_EXPORTER_OTLP_TRACES_${end}`
  return env[ofTraces] ? ofTraces : `OTEL_EXPORTER_OTLP_${end}`
}

export function endpointVariable(env: Environment): string | undefined {
  const name = exporterVariable(env, 'ENDPOINT')
  return env[name] ? name : undefined
}

function url(text: string): string {
  const reason = urlFault(text)
  if (reason !== undefined) throw new Error(reason)
  return text
}

function choice<const T extends string>(text: string, choices: readonly T[]): T {
  const found = choices.find((each) => each === text)
  if (found !== undefined) return found
  throw new Error(
    `must be ${choices.join(' or ')}, but is ${describeValue(text)}: the gateway has nothing else`,
  )
}

function whole(text: string, min: number, max: number): number {
  const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (number >= min && number <= max) return number
  throw new Error(`must be a whole number between ${min} and ${max}, but is ${describeValue(text)}`)
}

/** Reads `name=value,name=value`, percent-encoded (W3C Baggage). Faults repeat no text, because it may be secret. */
function pairs(text: string): Record<string, string> {
  const found: Record<string, string> = {}
  for (const pair of text.split(',')) {
    if (pair.trim() === '') continue
    const [, name = '', value = ''] = /^([^=]+)=(.*)$/s.exec(pair) ?? []
    if (name.trim() === '') throw new Error('must be a list of name=value with commas between them')
    try {
      found[decodeURIComponent(name.trim())] = decodeURIComponent(value.trim())
    } catch {
      throw new Error('must be percent-encoded: a % without two hexadecimal digits stands in it')
    }
  }
  return found
}

function samplerOf(text: string, argument: string | undefined) {
  const [, parent, own] = SAMPLER.exec(text) ?? []
  if (own === undefined) {
    const known = 'always_on, always_off or traceidratio, alone or after parentbased_'
    throw new Error(`must be ${known}, but is ${describeValue(text)}`)
  }
  const isParentBased = parent !== undefined
  if (own !== 'traceidratio') return { ratio: own === 'always_on' ? 1 : 0, isParentBased }
  if (argument !== undefined && argument !== '' && !RATIO.test(argument)) {
    throw new Error(`needs OTEL_TRACES_SAMPLER_ARG between 0 and 1, but that is ${describeValue(argument)}`)
  }
  return { ratio: Number(argument || 1), isParentBased }
}
