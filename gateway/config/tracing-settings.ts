import schema from '../../config/schemas/gateway.schema.json' with { type: 'json' }
import { isText, isToken } from '../edge/syntax/characters.ts'
import type { Environment } from './environment.ts'
import { ENVIRONMENT, type Fault, type Parsed } from './faults.ts'
import { schemaCheck } from './json/schema-check.ts'
import type { WrittenGateway } from './keys/gateway-keys.ts'
import { LINE_END, namedText, type ReadFile } from './load-file.ts'
import { endpointVariable, parseTracingVariables, type TracingVariables } from './rules/tracing-variables.ts'
import { urlFault } from './rules/value-rules.ts'

export interface ReceiverSettings {
  readonly endpoint: string
  /** Never logged. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** PEM: the authorities of its certificate; undefined: those that Node knows. */
  readonly ca: string | undefined
  readonly compression: 'gzip' | 'none'
  /** For one request with its response. */
  readonly timeoutMs: number
}

export interface Sampling {
  /** Share of requests to sample when no parent span decides, 0 to 1. */
  readonly ratio: number
  /** The parent spans whose sampling decision is followed. */
  readonly parents: 'all' | 'trusted' | 'none'
}

export interface TracingSettings {
  readonly receiver: ReceiverSettings
  readonly sampling: Sampling
  /** Time that a span waits for others to be sent with it. */
  readonly delayMs: number
  readonly maxQueue: number
  /** Attributes, `service.name` among them. */
  readonly resource: Readonly<Record<string, string>>
  /** Request methods that spans name; any other is `_OTHER`. */
  readonly knownMethods: ReadonlySet<string>
}

type WrittenTracing = NonNullable<WrittenGateway['tracing']>

/** The defaults, for a gateway.json without `tracing`. */
const NOTHING_WRITTEN = {} as WrittenTracing
schemaCheck(schema.properties.tracing)(NOTHING_WRITTEN)

const SERVICE_NAME = 'countersign'
/** Methods of the HTTP semantic conventions: RFC 9110, PATCH, QUERY. */
const KNOWN_METHODS = [
  'CONNECT',
  'DELETE',
  'GET',
  'HEAD',
  'OPTIONS',
  'PATCH',
  'POST',
  'PUT',
  'QUERY',
  'TRACE',
]
/** Headers that the exporter writes itself. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
])

interface TracingSources {
  readonly configFile: string
  readonly written: WrittenTracing | undefined
  readonly env: Environment
  readonly readFile: ReadFile | undefined
}

/**
 * Reads `tracing` of gateway.json and the overriding variables of OpenTelemetry. No fault repeats a header's value.
 * @returns undefined when no endpoint is named, or the environment switches tracing off
 */
export function loadTracing(sources: TracingSources): Parsed<TracingSettings | undefined> {
  const { configFile, written = NOTHING_WRITTEN, env } = sources
  if (endpointVariable(env) === undefined && (written.endpoint ?? '') === '') return { value: undefined }
  const variables = parseTracingVariables(env)
  if (variables.faults !== undefined) return { faults: variables.faults }
  const { endpoint = written.endpoint, isOff } = variables.value
  if (endpoint === undefined || isOff) return { value: undefined }
  const faults: Fault[] = []
  const reason = variables.value.endpoint === undefined ? urlFault(endpoint) : undefined
  if (reason !== undefined) faults.push({ file: configFile, path: '$.tracing.endpoint', reason })
  const receiver = {
    endpoint,
    headers: headersOf(sources, variables.value, faults),
    ca: readCa(sources, variables.value, faults),
    compression: variables.value.compression ?? written.compression,
    timeoutMs: variables.value.timeoutMs ?? written.timeoutMs,
  }
  if (faults.length > 0) return { faults }
  return {
    value: {
      receiver,
      sampling: samplingOf(written, variables.value),
      delayMs: variables.value.delayMs ?? written.delayMs,
      maxQueue: variables.value.maxQueue ?? written.maxQueue,
      resource: resourceOf(written, variables.value),
      knownMethods: new Set(variables.value.knownMethods ?? KNOWN_METHODS),
    },
  }
}

/** Merges the attributes, and replaces what has no UTF-8 form. */
function resourceOf(
  written: WrittenTracing,
  { resource, serviceName }: TracingVariables,
): Record<string, string> {
  const attributes = {
    'service.name': SERVICE_NAME,
    ...written.resource,
    ...(written.serviceName !== undefined && { 'service.name': written.serviceName }),
    ...resource,
    ...(serviceName !== undefined && { 'service.name': serviceName }),
  }
  return Object.fromEntries(
    Object.entries(attributes).map(([key, value]) => [key.toWellFormed(), value.toWellFormed()]),
  )
}

/** Keeps `parents: trusted` under a parent-based sampler, because no variable can say it. */
function samplingOf(written: WrittenTracing, { sampler }: TracingVariables): Sampling {
  if (sampler === undefined) return { ratio: written.ratio, parents: written.parents }
  const { ratio, isParentBased } = sampler
  return { ratio, parents: !isParentBased ? 'none' : written.parents === 'none' ? 'all' : written.parents }
}

function headersOf(
  { configFile, written, env, readFile }: TracingSources,
  variables: TracingVariables,
  faults: Fault[],
): readonly (readonly [string, string])[] {
  const found = new Map<string, readonly [string, string]>()
  for (const [name, place] of Object.entries(written?.headers ?? {})) {
    const path = `$.tracing.headers[${JSON.stringify(name)}]`
    const { text = '', reason = headerFault(name, text) } = headerText(place, env, readFile)
    if (reason === undefined) found.set(name.toLowerCase(), [name, text])
    else faults.push({ file: configFile, path, reason })
  }
  for (const [name, value] of variables.headers ?? []) {
    const reason = headerFault(name, value)
    if (reason === undefined) found.set(name.toLowerCase(), [name, value])
    else {
      const shown = isToken(name) ? `${name}: ` : ''
      faults.push({ file: ENVIRONMENT, path: variables.headersVariable, reason: `${shown}${reason}` })
    }
  }
  return [...found.values()]
}

function headerText(
  place: NonNullable<WrittenTracing['headers']>[string],
  env: Environment,
  readFile: ReadFile | undefined,
): ReturnType<typeof namedText> {
  if ('file' in place) {
    const { text, reason } = namedText(place.file, readFile)
    return text === undefined ? { reason } : { text: text.replace(LINE_END, '') }
  }
  const text = env[place.env]
  return text === undefined ? { reason: `the environment variable ${place.env} is not set` } : { text }
}

function headerFault(name: string, value: string): string | undefined {
  if (!isToken(name)) return 'must have the name of a header field'
  if (OWN_HEADERS.has(name.toLowerCase())) return 'must not be set: the gateway writes this header itself'
  return value !== '' && isText(value) ? undefined : 'must hold one line of text, the value of a header field'
}

function readCa(
  { configFile, written, readFile }: TracingSources,
  { caFile, caVariable }: TracingVariables,
  faults: Fault[],
): string | undefined {
  const file = caFile ?? written?.caFile
  if (file === undefined) return undefined
  const { text = '', reason = pemFault(text) } = namedText(file, readFile)
  if (reason === undefined) return text.replace(LINE_END, '')
  const place =
    caFile === undefined
      ? { file: configFile, path: '$.tracing.caFile' }
      : { file: ENVIRONMENT, path: caVariable }
  faults.push({ ...place, reason })
  return undefined
}

function pemFault(text: string): string | undefined {
  return text.includes('-----BEGIN CERTIFICATE-----')
    ? undefined
    : 'must name a file that holds a certificate in PEM'
}
