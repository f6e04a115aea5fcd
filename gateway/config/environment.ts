import { readFileSync } from 'node:fs'
import { ENVIRONMENT, type Fault } from './faults.ts'
import { closestTo } from './json/did-you-mean.ts'
import { type Overrides, withoutMark } from './json/json-file.ts'
import { OVERRIDDEN_KEYS } from './json/key-names.ts'
import { describeValue, type Schema, SEVERAL_GATEWAYS } from './json/schema-check.ts'
import type { WrittenGateway } from './keys/gateway-keys.ts'
import { MEMORY_PROFILES } from './rules/memory-profiles.ts'
import { STORE_VARIABLES } from './rules/store-address.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** Variables that Kubernetes sets for a Service named `gateway` or `gateway-…`. */
const SERVICE_LINK =
  /^GATEWAY(?:_[A-Z0-9]+)*(?:_SERVICE_HOST|_SERVICE_PORT(?:_[A-Z0-9_]+)?|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$/
const SERVICE_LINK_VALUE = /^(?:tcp|udp|sctp):\/\//

/** Variables that override no key, with their checks. A variable without a check is checked where it is used. */
const OTHERS: ReadonlyMap<string, (text: string) => string | undefined> = new Map([
  ...['GATEWAY_CONFIG', 'GATEWAY_LIMITS', 'GATEWAY_CLIENTS', ...STORE_VARIABLES].map(
    (name) => [name, () => undefined] as const,
  ),
  ['GATEWAY_WORKERS', workersFault],
  ['GATEWAY_REUSE_PORT', (text: string) => choiceFault(text, ['true', 'false'])],
  ['GATEWAY_PROFILE', (text: string) => choiceFault(text, MEMORY_PROFILES)],
])

/** How fault texts say which option, variable or key gives each file. */
export const NAMES = {
  configFile: '--config, GATEWAY_CONFIG or by default',
  limitsFile: '--limits, GATEWAY_LIMITS or by default',
  clientsFile:
    'GATEWAY_CLIENTS, or by default for routes with "mtls", "hmac", "signature" or "signatures.request"',
  adminTokenFile: '"adminTokenFile" (GATEWAY_ADMIN_TOKEN_FILE)',
  upstreamSecretFile: '"upstreamSecretFile" (GATEWAY_UPSTREAM_SECRET_FILE)',
} as const

/** Names of files, relative to the working directory. */
export function configFiles(env: Environment): Record<'configFile' | 'limitsFile' | 'clientsFile', string> {
  return {
    configFile: env.GATEWAY_CONFIG || 'config/gateway.json',
    limitsFile: env.GATEWAY_LIMITS || 'config/limits.json',
    clientsFile: env.GATEWAY_CLIENTS || 'config/clients.json',
  }
}

/** What gateway.json says, unchecked; nothing while it is missing or faulty, such as in the middle of an edit. */
export function writtenKeys(env: Environment): Partial<WrittenGateway> {
  try {
    return Object(JSON.parse(withoutMark(readFileSync(configFiles(env).configFile, 'utf8'))))
  } catch {
    return {}
  }
}

/**
 * Reads the variables `GATEWAY_…`. The schema checks the values of keys later. An unknown name is a fault, because it
 * may be a typo.
 */
export function parseEnvironment(env: Environment): {
  readonly overrides: Overrides
  readonly faults: readonly Fault[]
} {
  const overrides = new Map<string, { variable: string; value: unknown }>()
  const faults: Fault[] = []
  for (const [variable, text] of Object.entries(env)) {
    if (!variable.startsWith('GATEWAY_') || text === undefined || SERVICE_LINK.test(variable)) continue
    const reason = variableFault(variable, text)
    const key = OVERRIDDEN_KEYS.get(variable)
    if (reason !== undefined) faults.push({ file: ENVIRONMENT, path: variable, reason })
    else if (key !== undefined) overrides.set(`$.${key.path}`, { variable, value: read(key.schema, text) })
  }
  return { overrides, faults }
}

function variableFault(name: string, text: string): string | undefined {
  const otherFault = OTHERS.get(name)
  const isKnown = OVERRIDDEN_KEYS.has(name) || otherFault !== undefined
  const isServiceLink = SERVICE_LINK_VALUE.test(text) && name.endsWith('_PORT')
  if (!isKnown) return isServiceLink ? undefined : unknownFault(name)
  if (isServiceLink) return serviceLinkFault(text)
  // An empty value is probably a mistake in a script, not a wish for the default.
  return text === '' ? 'is set but empty: give it a value or unset it' : otherFault?.(text)
}

function serviceLinkFault(text: string): string {
  return `is ${describeValue(text)}, which Kubernetes sets for a Service of this name: set the variable in the container's own env, or enableServiceLinks: false in the pod`
}

function unknownFault(name: string): string {
  const meant = closestTo(name, [...OTHERS.keys(), ...OVERRIDDEN_KEYS.keys()])
  return meant === undefined
    ? 'is not a variable that the gateway knows'
    : `is not a variable that the gateway knows; did you mean ${meant}?`
}

/** Reads a text as the type of its key. A text that does not fit stays, and the schema refuses it. */
function read({ type, items }: Schema, text: string): unknown {
  if (type === 'integer') return /^-?\d{1,15}$/.test(text) ? Number(text) : text
  if (type === 'boolean') return text === 'true' || (text === 'false' ? false : text)
  if (items === undefined) return text
  const entries = text.split(',').map((entry) => entry.trim())
  // A single value stays a text if the key takes a text or a list.
  return type !== 'array' && entries.length === 1 ? text : entries
}

function workersFault(text: string): string | undefined {
  if (text === '1') return undefined
  return `must be 1 or unset, but is ${describeValue(text)}: a gateway has no workers; for more cores ${SEVERAL_GATEWAYS}`
}

function choiceFault(text: string, choices: readonly unknown[]): string | undefined {
  if (choices.includes(text)) return undefined
  return `must be one of ${choices.join(', ')}, but is ${describeValue(text)}`
}
