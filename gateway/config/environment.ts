import schema from '../../config/schemas/gateway.schema.json' with { type: 'json' }
import type { Fault, Parsed } from './faults.ts'
import type { GatewayFile } from './gateway-file.ts'
import { closestTo } from './json/did-you-mean.ts'
import { describeValue, SEVERAL_GATEWAYS } from './json/schema-check.ts'
import { MEMORY_PROFILES } from './rules/memory-profiles.ts'
import { STORE_VARIABLES } from './rules/store-address.ts'
import {
  hostFault,
  issuerFault,
  tidyUpstream,
  upstreamFault,
  urlFault,
  versionFault,
} from './rules/value-rules.ts'
import type { Durability, Settings, TlsKeys } from './settings.ts'

/** The `file` of a fault in the environment. */
export const ENVIRONMENT = 'environment'

/** The shape of `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The settings that the environment overrides; keys that it does not name are missing. */
export type Overrides = { -readonly [Key in keyof GatewayFile]?: GatewayFile[Key] }

/** Reads a variable, or says what is wrong with it. */
type Read = (text: string, overrides: Overrides) => string | undefined

const DURABILITIES = schema.properties.audit.properties.durability.enum
const SEALS = schema.properties.audit.properties.seals.enum
const GRACE = schema.properties.timeouts.properties.drainGraceMs
const LOG_LEVELS = schema.properties.logLevel.enum
/** Variables that Kubernetes sets in every container of a namespace with a Service named `gateway` or `gateway-…`. */
const SERVICE_LINK =
  /^GATEWAY(?:_[A-Z0-9]+)*(?:_SERVICE_HOST|_SERVICE_PORT(?:_[A-Z0-9_]+)?|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$/
const SERVICE_LINK_VALUE = /^(?:tcp|udp|sctp):\/\//

const VARIABLES: ReadonlyMap<string, Read> = new Map<string, Read>([
  ['GATEWAY_CONFIG', ignore],
  ['GATEWAY_LIMITS', ignore],
  ['GATEWAY_CLIENTS', ignore],
  ['GATEWAY_HOST', (text, overrides) => hostFault(text) ?? set(overrides, { host: text })],
  ['GATEWAY_PORT', (text, overrides) => portFault(text) ?? set(overrides, { port: Number(text) })],
  ['GATEWAY_ADMIN_HOST', (text, overrides) => hostFault(text) ?? set(overrides, { adminHost: text })],
  ['GATEWAY_ADMIN_PORT', (text, overrides) => portFault(text) ?? set(overrides, { adminPort: Number(text) })],
  ['GATEWAY_ADMIN_TOKEN_FILE', (text, overrides) => set(overrides, { adminTokenFile: text })],
  ['GATEWAY_ADMIN_OPEN', readAdminOpen],
  ['GATEWAY_ADMIN_NAMES', readAdminNames],
  ['GATEWAY_UPSTREAM', readUpstreams],
  ['GATEWAY_UPSTREAM_SECRET_FILE', (text, overrides) => set(overrides, { upstreamSecretFile: text })],
  ['GATEWAY_ISSUER', (text, overrides) => issuerFault(text) ?? set(overrides, { issuer: text })],
  ['GATEWAY_JWKS_URI', (text, overrides) => urlFault(text) ?? set(overrides, { jwksUri: text })],
  ['GATEWAY_AUDIENCE', (text, overrides) => set(overrides, { audience: text })],
  ['GATEWAY_AUDIT_FILE', (text, overrides) => set(overrides, { auditFile: text })],
  [
    'GATEWAY_AUDIT_DURABILITY',
    (text, overrides) =>
      choiceFault(text, DURABILITIES) ?? set(overrides, { auditDurability: text as Durability }),
  ],
  [
    'GATEWAY_AUDIT_SEALS',
    (text, overrides) =>
      choiceFault(text, SEALS) ?? set(overrides, { auditSeals: text as Settings['auditSeals'] }),
  ],
  ['GATEWAY_AUDIT_SEAL_KEY', (text, overrides) => set(overrides, { auditSealKeyFile: text })],
  ...STORE_VARIABLES.map((name) => [name, ignore] as const),
  ['GATEWAY_WORKERS', workersFault],
  ['GATEWAY_REUSE_PORT', (text) => choiceFault(text, ['true', 'false'])],
  ['GATEWAY_PROFILE', (text) => choiceFault(text, MEMORY_PROFILES)],
  ['GATEWAY_DRAIN_GRACE_MS', readDrainGrace],
  ['GATEWAY_DATA_DIR', (text, overrides) => set(overrides, { dataDir: text })],
  [
    'GATEWAY_LOG_LEVEL',
    (text, overrides) =>
      choiceFault(text, LOG_LEVELS) ?? set(overrides, { logLevel: text as Settings['logLevel'] }),
  ],
  ['GATEWAY_TLS_PORT', (text, overrides) => portFault(text) ?? setTls(overrides, { port: Number(text) })],
  ['GATEWAY_TLS_CERT', (text, overrides) => setTls(overrides, { certFile: text })],
  ['GATEWAY_TLS_KEY', (text, overrides) => setTls(overrides, { keyFile: text })],
  ['GATEWAY_TLS_CLIENT_CA', (text, overrides) => setTls(overrides, { clientCaFile: text })],
  ['GATEWAY_TLS_CLIENT_CRL', (text, overrides) => setTls(overrides, { clientCrlFile: text })],
  ['GATEWAY_TLS_TICKET_KEY', (text, overrides) => setTls(overrides, { ticketKeyFile: text })],
  ['GATEWAY_TLS_OCSP', (text, overrides) => setTls(overrides, { ocspFile: text })],
  [
    'GATEWAY_TLS_OCSP_FETCH',
    (text, overrides) =>
      choiceFault(text, ['true', 'false']) ?? setTls(overrides, { ocspFetch: text === 'true' }),
  ],
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
  const read = VARIABLES.get(name)
  const isServiceLink = SERVICE_LINK_VALUE.test(text) && name.endsWith('_PORT')
  if (read === undefined) return isServiceLink ? undefined : unknownFault(name)
  if (isServiceLink) return serviceLinkFault(text)
  // Probably a mistake in a script, not a wish for the default.
  return text === '' ? 'is set but empty: give it a value or unset it' : read(text, overrides)
}

function serviceLinkFault(text: string): string {
  return `is ${describeValue(text)}, which Kubernetes sets for a Service of this name: set the variable in the container's own env, or enableServiceLinks: false in the pod`
}

function unknownFault(name: string): string {
  const meant = closestTo(name, VARIABLES.keys())
  return meant === undefined
    ? 'is not a variable that the gateway knows'
    : `is not a variable that the gateway knows; did you mean ${meant}?`
}

function set(overrides: Overrides, values: Overrides): undefined {
  Object.assign(overrides, values)
}

function setTls(overrides: Overrides, keys: TlsKeys): undefined {
  overrides.tls = { ...overrides.tls, ...keys }
}

/** The variables that `configFiles` and `parseStoreSettings` read. */
function ignore(): undefined {}

function portFault(text: string): string | undefined {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (port <= 65535) return undefined
  return `must be a whole number between 0 and 65535, but is ${describeValue(text)}`
}

function readAdminOpen(text: string, overrides: Overrides): string | undefined {
  return choiceFault(text, ['true', 'false']) ?? set(overrides, { adminOpen: text === 'true' })
}

function readAdminNames(text: string, overrides: Overrides): string | undefined {
  const adminNames = text.split(',').map((name) => name.trim())
  const fault = adminNames.map(hostFault).find((reason) => reason !== undefined)
  return fault ?? set(overrides, { adminNames })
}

function readUpstreams(text: string, overrides: Overrides): string | undefined {
  const upstreams = text.split(',').map((upstream) => tidyUpstream(upstream.trim()))
  for (const [index, upstream] of upstreams.entries()) {
    const reason = upstreamFault(upstream) ?? versionFault(upstream, upstreams[0])
    if (reason !== undefined) return reason
    if (upstreams.indexOf(upstream) < index) return `must not name ${upstream} twice`
  }
  return set(overrides, { upstreams })
}

/** One gateway is one event loop. */
function workersFault(text: string): string | undefined {
  if (text === '1') return undefined
  return `must be 1 or unset, but is ${describeValue(text)}: a gateway has no workers; for more cores ${SEVERAL_GATEWAYS}`
}

function readDrainGrace(text: string, overrides: Overrides): string | undefined {
  const graceMs = /^\d{1,8}$/.test(text) ? Number(text) : Number.NaN
  if (!(graceMs <= GRACE.maximum)) {
    return `must be a whole number of milliseconds between 0 and ${GRACE.maximum}, but is ${describeValue(text)}`
  }
  return set(overrides, { drainGraceMs: graceMs })
}

function choiceFault(text: string, choices: readonly string[]): string | undefined {
  if (choices.includes(text)) return undefined
  return `must be one of ${choices.join(', ')}, but is ${describeValue(text)}`
}
