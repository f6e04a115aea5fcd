import schema from '../../config/schemas/gateway.schema.json' with { type: 'json' }
import { isText, isToken } from '../edge/syntax/characters.ts'
import { describeFault, type Fault, type Parsed } from './faults.ts'
import { schemaCheck } from './json/schema-check.ts'
import type { WrittenGateway } from './keys/gateway-keys.ts'
import { loadFile, type ReadFile } from './load-file.ts'
import { endpointVariable, parseTracingVariables, type TracingVariables } from './rules/tracing-variables.ts'
import { urlFault } from './rules/value-rules.ts'

/** Where spans go. Immutable. */
export interface ReceiverSettings {
  /** The URL that batches are posted to. */
  readonly endpoint: string
  /** Never logged. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** PEM: the authorities of its certificate; undefined: those that Node knows. */
  readonly ca: string | undefined
  readonly compression: 'gzip' | 'none'
  /** For one request with its response. */
  readonly timeoutMs: number
}

/** Which requests get spans. Immutable. */
export interface Sampling {
  /** Sampled share of the requests that no parent decides, 0 to 1. */
  readonly ratio: number
  /** Whose word counts that a request is sampled or not: everybody's, that of trusted proxies, or nobody's. */
  readonly parents: 'all' | 'trusted' | 'none'
}

/** Immutable. */
export interface TracingSettings {
  readonly receiver: ReceiverSettings
  readonly sampling: Sampling
  /** How long a span waits for others. */
  readonly delayMs: number
  /** How many spans may wait. */
  readonly maxQueue: number
  /** Attributes of the resource, `service.name` among them. */
  readonly resource: Readonly<Record<string, string>>
  /** Request methods that spans name; any other is `_OTHER`. */
  readonly knownMethods: ReadonlySet<string>
}

type WrittenTracing = NonNullable<WrittenGateway['tracing']>

/** What is in force without the key in gateway.json. */
const NOTHING_WRITTEN = {} as WrittenTracing
schemaCheck(schema.properties.tracing)(NOTHING_WRITTEN)

const NO_NAME = 'must have the name of a header field'
const SERVICE_NAME = 'countersign'
/** RFC 9110, PATCH, and QUERY: those of the HTTP semantic conventions. */
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
/** Written by the exporter itself. */
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
  readonly env: Readonly<Partial<Record<string, string>>>
  readonly readFile: ReadFile | undefined
}

/**
 * Reads how requests are traced: `tracing` of gateway.json, and the variables of OpenTelemetry, which override it. Faults name
 * a place and never a header's value.
 *
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

/** Each source overrides the one before. Names of services are text; half a surrogate pair has no UTF-8 form. */
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

/** The environment cannot say that only trusted proxies are believed: where the file does, that stays. */
function samplingOf(written: WrittenTracing, { sampler }: TracingVariables): Sampling {
  if (sampler === undefined) return { ratio: written.ratio, parents: written.parents }
  const { ratio, isParentBased } = sampler
  return { ratio, parents: !isParentBased ? 'none' : written.parents === 'none' ? 'all' : written.parents }
}

/** The environment's values take the place of the file's. */
function headersOf(
  { configFile, written, env, readFile }: TracingSources,
  variables: TracingVariables,
  faults: Fault[],
): readonly (readonly [string, string])[] {
  const found = new Map<string, readonly [string, string]>()
  for (const [name, place] of Object.entries(written?.headers ?? {})) {
    const path = `$.tracing.headers[${JSON.stringify(name)}]`
    const value = 'env' in place ? env[place.env] : readLine(place.file, readFile)
    const reason =
      typeof value === 'object'
        ? value.reason
        : value === undefined
          ? `the environment variable ${(place as { env: string }).env} is not set`
          : headerFault(name, value)
    if (reason !== undefined) faults.push({ file: configFile, path, reason })
    else found.set(name.toLowerCase(), [name, value as string])
  }
  for (const [name, value] of variables.headers ?? []) {
    const reason = headerFault(name, value)
    if (reason === undefined) found.set(name.toLowerCase(), [name, value])
    else {
      const shown = isToken(name) ? `${name}: ` : ''
      faults.push({ file: 'environment', path: variables.headersVariable, reason: `${shown}${reason}` })
    }
  }
  return [...found.values()]
}

function headerFault(name: string, value: string): string | undefined {
  if (!isToken(name)) return NO_NAME
  if (OWN_HEADERS.has(name.toLowerCase())) return 'must not be set: the gateway writes this header itself'
  return value !== '' && isText(value) ? undefined : 'must hold one line of text, the value of a header field'
}

function readLine(file: string, readFile: ReadFile | undefined): string | { readonly reason: string } {
  const { value, faults } = loadFile(file, (_, text) => ({ value: text.replace(/\r?\n$/, '') }), { readFile })
  if (faults === undefined) return value.value
  return { reason: `names a file that is not usable: ${faults.map(describeFault).join(', ')}` }
}

function readCa(
  { configFile, written, readFile }: TracingSources,
  { caFile, caVariable }: TracingVariables,
  faults: Fault[],
): string | undefined {
  const file = caFile ?? written?.caFile
  if (file === undefined) return undefined
  const pem = readLine(file, readFile)
  const reason =
    typeof pem === 'object'
      ? pem.reason
      : pem.includes('-----BEGIN CERTIFICATE-----')
        ? undefined
        : 'must name a file that holds a certificate in PEM'
  if (reason === undefined) return pem as string
  const place =
    caFile === undefined
      ? { file: configFile, path: '$.tracing.caFile' }
      : { file: 'environment', path: caVariable }
  faults.push({ ...place, reason })
  return undefined
}
