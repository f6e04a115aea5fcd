import type { Fault, Parsed } from './faults.ts'
import type { GatewayFile } from './gateway-file.ts'
import { closestTo } from './json/did-you-mean.ts'
import { OVERRIDDEN_KEYS, type OverriddenKey, settingOf } from './json/key-names.ts'
import { describeValue, type Schema, SEVERAL_GATEWAYS } from './json/schema-check.ts'
import { MEMORY_PROFILES } from './rules/memory-profiles.ts'
import { STORE_VARIABLES } from './rules/store-address.ts'
import { TEXT_RULES, tidyUpstream, upstreamFault, versionFault } from './rules/value-rules.ts'

/** The `file` of a fault in the environment. */
export const ENVIRONMENT = 'environment'

/** The shape of `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The settings that the environment overrides; keys that it does not name are missing. */
export type Overrides = { -readonly [Key in keyof GatewayFile]?: GatewayFile[Key] }

/** What is wrong with a text, or with one of a list, beyond the type of its key. */
const RULES: Readonly<Record<string, (text: string, all: readonly string[]) => string | undefined>> = {
  ...TEXT_RULES,
  upstream: (one, all) =>
    upstreamFault(one) ??
    versionFault(one, all[0]) ??
    (all.indexOf(one) < all.lastIndexOf(one) ? `must not name ${one} twice` : undefined),
}
/** Variables that Kubernetes sets in every container of a namespace with a Service named `gateway` or `gateway-…`. */
const SERVICE_LINK =
  /^GATEWAY(?:_[A-Z0-9]+)*(?:_SERVICE_HOST|_SERVICE_PORT(?:_[A-Z0-9_]+)?|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$/
const SERVICE_LINK_VALUE = /^(?:tcp|udp|sctp):\/\//

/** Variables that override no key, with what is wrong with a value of theirs, as far as `configFiles` and others do not say it. */
const OTHERS: ReadonlyMap<string, (text: string) => string | undefined> = new Map([
  ...['GATEWAY_CONFIG', 'GATEWAY_LIMITS', 'GATEWAY_CLIENTS', ...STORE_VARIABLES].map(
    (name) => [name, () => undefined] as const,
  ),
  ['GATEWAY_WORKERS', workersFault],
  ['GATEWAY_REUSE_PORT', (text: string) => choiceFault(text, ['true', 'false'])],
  ['GATEWAY_PROFILE', (text: string) => choiceFault(text, MEMORY_PROFILES)],
])

export interface ConfigFiles {
  readonly configFile: string
  readonly limitsFile: string
  readonly clientsFile: string
}

/** What names each file, for faults. */
export const NAMES = {
  configFile: '--config, GATEWAY_CONFIG or by default',
  limitsFile: '--limits, GATEWAY_LIMITS or by default',
  clientsFile: 'GATEWAY_CLIENTS, or by default for routes with "mtls" or "hmac"',
  adminTokenFile: '"adminTokenFile" (GATEWAY_ADMIN_TOKEN_FILE)',
  upstreamSecretFile: '"upstreamSecretFile" (GATEWAY_UPSTREAM_SECRET_FILE)',
} as const

/** The files that the environment names, or the default ones. Relative to the working directory. */
export function configFiles(env: Environment): ConfigFiles {
  return {
    configFile: env.GATEWAY_CONFIG || 'config/gateway.json',
    limitsFile: env.GATEWAY_LIMITS || 'config/limits.json',
    clientsFile: env.GATEWAY_CLIENTS || 'config/clients.json',
  }
}

/**
 * Reads the variables whose names begin with `GATEWAY_`. Unknown ones are faults, because a typo would be ignored
 * silently; those that Kubernetes sets for a Service are not.
 */
export function parseEnvironment(env: Environment): Parsed<Overrides> {
  const overrides: Overrides = {}
  const faults: Fault[] = []
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith('GATEWAY_') || text === undefined || SERVICE_LINK.test(name)) continue
    const reason = readVariable(name, text, overrides)
    if (reason !== undefined) faults.push({ file: ENVIRONMENT, path: name, reason })
  }
  return faults.length > 0 ? { faults } : { value: overrides }
}

function readVariable(name: string, text: string, overrides: Overrides): string | undefined {
  const key = OVERRIDDEN_KEYS.get(name)
  const otherFault = OTHERS.get(name)
  const isServiceLink = SERVICE_LINK_VALUE.test(text) && name.endsWith('_PORT')
  if (key === undefined && otherFault === undefined) return isServiceLink ? undefined : unknownFault(name)
  if (isServiceLink) return serviceLinkFault(text)
  // Probably a mistake in a script, not a wish for the default.
  if (text === '') return 'is set but empty: give it a value or unset it'
  return key === undefined ? otherFault?.(text) : override(name, key, text, overrides)
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

/** Reads the text as its key asks for, or says what is wrong with it. */
function override(
  name: string,
  { path, schema }: OverriddenKey,
  text: string,
  overrides: Overrides,
): string | undefined {
  const value = read(name, schema, text)
  const reason = faultOf({ path, schema }, text, value)
  if (reason !== undefined) return reason
  const [object, key] = path.split('.')
  if (object === 'tls') overrides.tls = { ...overrides.tls, [key as string]: value }
  else Object.assign(overrides, { [settingOf(path)]: value })
  return undefined
}

function read(name: string, { type, items }: Schema, text: string): string | number | boolean | string[] {
  if (type === 'integer') return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (type === 'boolean') return text === 'true'
  if (items === undefined) return text
  const entries = text.split(',').map((entry) => entry.trim())
  if (name === 'GATEWAY_UPSTREAM') return entries.map(tidyUpstream)
  // Of what may be a text or a list, one stays a text.
  return type !== 'array' && entries.length === 1 ? text : entries
}

function faultOf({ path, schema }: OverriddenKey, text: string, value: unknown): string | undefined {
  const { type, enum: choices, minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = schema
  if (choices !== undefined) return choiceFault(text, choices)
  if (type === 'boolean') return choiceFault(text, ['true', 'false'])
  if (type === 'integer') {
    if (Number(value) >= minimum && Number(value) <= maximum) return undefined
    const unit = path.endsWith('Ms') ? ' of milliseconds' : ''
    return `must be a whole number${unit} between ${minimum} and ${maximum}, but is ${describeValue(text)}`
  }
  const texts = [value].flat() as string[]
  return texts.map((one) => RULES[path]?.(one, texts)).find((reason) => reason !== undefined)
}

function workersFault(text: string): string | undefined {
  if (text === '1') return undefined
  return `must be 1 or unset, but is ${describeValue(text)}: a gateway has no workers; for more cores ${SEVERAL_GATEWAYS}`
}

function choiceFault(text: string, choices: readonly unknown[]): string | undefined {
  if (choices.includes(text)) return undefined
  return `must be one of ${choices.join(', ')}, but is ${describeValue(text)}`
}
