import { BlockList } from 'node:net'
import schema from '../../config/schemas/gateway.schema.json' with { type: 'json' }
import type { Parsed } from './faults.ts'
import { JsonFile } from './json/json-file.ts'
import { schemaCheck } from './json/schema-check.ts'
import { validateGateway } from './json/validators.ts'
import {
  algorithmsAndProfile,
  checkIssuers,
  checkOwnIssuer,
  issuerSettings,
  type WrittenIssuer,
} from './rules/issuer-rules.ts'
import { methodSet } from './rules/method-rules.ts'
import { checkRows } from './rules/row-rules.ts'
import type { TlsKeys } from './rules/tls-rules.ts'
import {
  addNetwork,
  fieldNameFault,
  hostFault,
  issuerFault,
  tidyUpstream,
  upstreamFault,
  urlFault,
} from './rules/value-rules.ts'
import { windowToMs } from './rules/window-rule.ts'
import { workerCount } from './rules/worker-count.ts'
import type {
  AddressRateSettings,
  AuthThrottleSettings,
  DpopSettings,
  Durability,
  FurtherIssuer,
  Route,
  RouteAuth,
  Timeouts,
  TokenAlgorithm,
} from './settings.ts'

/** What config/gateway.json says, with every default filled in that does not depend on the environment. Immutable. */
export interface GatewayFile {
  readonly upstreams: readonly string[]
  readonly host: string
  readonly port: number
  /** Undefined: the file has no such section. What it lacks may be in the environment. */
  readonly tls: TlsKeys | undefined
  readonly adminHost: string
  readonly adminPort: number
  readonly issuer: string
  /** Undefined: made of the upstream in force. */
  readonly jwksUri: string | undefined
  /** Undefined: made of the issuer in force. */
  readonly audience: string | undefined
  readonly algorithms: readonly TokenAlgorithm[]
  readonly profile: 'fapi' | undefined
  readonly issuers: readonly FurtherIssuer[]
  readonly jwksMaxStaleMs: number
  readonly dpop: Pick<DpopSettings, 'nonce'> & {
    /** Undefined: made of the issuer in force. */
    readonly publicUrls: readonly string[] | undefined
  }
  readonly authThrottle: AuthThrottleSettings
  readonly addressRate: AddressRateSettings | undefined
  readonly auditFile: string
  readonly auditDurability: Durability
  /** Undefined: nothing proves the gateway to the service. */
  readonly upstreamSecretFile: string | undefined
  readonly dataDir: string
  readonly onJournalFailure: 'unready' | 'degraded'
  readonly logLevel: string
  readonly trustedProxies: BlockList | undefined
  readonly clientCertProxies: BlockList | undefined
  readonly allowedFieldNames: ReadonlySet<string>
  readonly via: boolean
  readonly workers: number
  readonly drainGraceMs: number
  readonly maxInFlight: number
  readonly maxTunnels: number
  readonly timeouts: Timeouts
  readonly routes: readonly Route[]
}

/** The file as the schema allows it, with the schema's defaults. */
interface Written {
  readonly upstream: string | readonly string[]
  readonly host: string
  readonly port: number
  readonly tls?: TlsKeys
  readonly adminHost: string
  readonly adminPort: number
  readonly issuer: string
  readonly jwksUri?: string
  readonly audience?: string
  readonly algorithms?: readonly TokenAlgorithm[]
  readonly profile?: 'fapi'
  readonly issuers: readonly WrittenIssuer[]
  readonly jwksMaxStaleMs: number
  readonly dpop: { readonly nonce: DpopSettings['nonce']; readonly publicUrls?: readonly string[] }
  readonly authThrottle: { readonly failures: number; readonly window: string }
  readonly addressRate?: { readonly requests: number; readonly window: string }
  readonly audit: { readonly file: string; readonly durability: Durability }
  readonly upstreamSecretFile?: string
  readonly dataDir: string
  readonly limits: { readonly onJournalFailure: 'unready' | 'degraded' }
  readonly logLevel: string
  readonly trustedProxies: readonly string[]
  readonly clientCertProxies: readonly string[]
  readonly allowedFieldNames: readonly string[]
  readonly via: boolean
  readonly workers: number | 'auto'
  readonly maxInFlight: number
  readonly maxTunnels: number
  readonly maxBodyBytes: number
  readonly timeouts: Timeouts & { readonly drainGraceMs: number }
  readonly routes: readonly WrittenRoute[]
}

interface WrittenRoute {
  readonly path: string
  readonly methods?: readonly string[]
  readonly auth: readonly RouteAuth[]
  readonly scopes: readonly string[]
  readonly timeoutMs?: number
  readonly idleTimeoutMs?: number
  readonly maxBodyBytes?: number
  readonly clientCert: boolean
}

const NEVER = Number.POSITIVE_INFINITY
const MAX_WINDOW_MS = 86_400_000
const checkSchema = schemaCheck(validateGateway, schema)

/** Reads config/gateway.json. @param file its name, for the faults */
export function parseGatewayFile(file: string, text: string): Parsed<GatewayFile> {
  const json = new JsonFile<Written>(file, text, checkSchema)
  const written = json.value
  if (written === undefined) return { faults: json.faults() }
  checkTexts(json, written)
  checkOwnIssuer(json, written)
  checkIssuers(json, written.issuers)
  checkAuthentication(json, written)
  checkWindows(json, written)
  checkUpstreams(json, written)
  checkTimeouts(json, written)
  checkRoutes(json, written)
  const proxies = {
    trustedProxies: readNetworks(json, 'trustedProxies'),
    clientCertProxies: readNetworks(json, 'clientCertProxies'),
  }
  checkFieldNames(json, written)
  const faults = json.faults()
  return faults.length > 0 ? { faults } : { value: gatewayFile(written, proxies) }
}

type Proxies = Pick<GatewayFile, 'trustedProxies' | 'clientCertProxies'>

function gatewayFile(written: Written, proxies: Proxies): GatewayFile {
  const { drainGraceMs, ...timeouts } = written.timeouts
  const { host, port, adminHost, adminPort, issuer, jwksUri, audience, dataDir, logLevel } = written
  return {
    upstreams: [written.upstream].flat().map(tidyUpstream),
    host,
    port,
    tls: written.tls,
    adminHost,
    adminPort,
    issuer,
    jwksUri,
    audience,
    ...algorithmsAndProfile(written),
    issuers: written.issuers.map(issuerSettings),
    jwksMaxStaleMs: written.jwksMaxStaleMs,
    dpop: { nonce: written.dpop.nonce, publicUrls: written.dpop.publicUrls },
    authThrottle: {
      failures: written.authThrottle.failures,
      windowMs: windowToMs(written.authThrottle.window),
    },
    addressRate: written.addressRate && {
      requests: written.addressRate.requests,
      windowMs: windowToMs(written.addressRate.window),
    },
    auditFile: written.audit.file,
    auditDurability: written.audit.durability,
    upstreamSecretFile: written.upstreamSecretFile,
    dataDir,
    onJournalFailure: written.limits.onJournalFailure,
    logLevel,
    ...proxies,
    allowedFieldNames: new Set(written.allowedFieldNames.map((name) => name.toLowerCase())),
    via: written.via,
    workers: workerCount(written.workers),
    maxInFlight: written.maxInFlight,
    maxTunnels: written.maxTunnels,
    drainGraceMs,
    timeouts,
    routes: written.routes.map((route) => ({
      path: route.path,
      methods: methodSet(route.methods),
      auth: new Set(route.auth),
      scopes: route.scopes,
      timeoutMs: route.timeoutMs ?? written.timeouts.totalMs,
      idleTimeoutMs: route.idleTimeoutMs ?? written.timeouts.bodyIdleMs,
      maxBodyBytes: route.maxBodyBytes ?? written.maxBodyBytes,
      clientCert: route.clientCert,
    })),
  }
}

function checkTexts(json: JsonFile<Written>, written: Written): void {
  const rules = [
    ['host', hostFault],
    ['adminHost', hostFault],
    ['issuer', issuerFault],
    ['jwksUri', urlFault],
  ] as const
  for (const [key, fault] of rules) {
    const path = `$.${key}`
    if (!json.sound(path)) continue
    const value = written[key]
    const reason = value === undefined ? undefined : fault(value)
    if (reason !== undefined) json.refuse({ path, reason })
  }
}

function checkWindows(json: JsonFile<Written>, { authThrottle, addressRate }: Written): void {
  const windows = [
    ['$.authThrottle.window', authThrottle?.window],
    ['$.addressRate.window', addressRate?.window],
  ] as const
  for (const [path, window] of windows) {
    if (window === undefined || !json.sound(path) || windowToMs(window) <= MAX_WINDOW_MS) continue
    json.refuse({ path, reason: `must be at most "24h", but is "${window}"` })
  }
}

function checkAuthentication(json: JsonFile<Written>, { dpop }: Written): void {
  if (json.sound('$.dpop.publicUrls')) {
    for (const [index, url] of (dpop.publicUrls ?? []).entries()) {
      // The rules are those of an issuer: no query, no fragment, no credentials.
      const reason = issuerFault(url)
      if (reason !== undefined) json.refuse({ path: `$.dpop.publicUrls[${index}]`, reason })
    }
  }
}

function checkUpstreams(json: JsonFile<Written>, { upstream }: Written): void {
  if (!json.sound('$.upstream')) return
  if (typeof upstream === 'string') {
    const reason = upstreamFault(upstream)
    if (reason !== undefined) json.refuse({ path: '$.upstream', reason })
    return
  }
  const tidy = upstream.map(tidyUpstream)
  for (const [index, one] of tidy.entries()) {
    const reason =
      upstreamFault(one) ?? (tidy.indexOf(one) < index ? `must not be "${one}" a second time` : undefined)
    if (reason !== undefined) json.refuse({ path: `$.upstream[${index}]`, reason })
  }
}

function checkTimeouts(json: JsonFile<Written>, { timeouts }: Written): void {
  if (!json.sound('$.timeouts')) return
  const { totalMs = NEVER, requestMs = NEVER, requestHeadersMs } = timeouts
  // A default that a shorter total cuts off is no mistake; one that somebody wrote will never be what they meant.
  for (const key of ['connectMs', 'headersMs', 'bodyIdleMs'] as const) {
    const path = `$.timeouts.${key}`
    if (timeouts[key] <= totalMs || !json.wrote(path)) continue
    json.refuse({ path, reason: `must not be longer than totalMs (${totalMs}), but is ${timeouts[key]}` })
  }
  if (requestHeadersMs > requestMs) {
    const reason = `must not be longer than requestMs (${requestMs}), but is ${requestHeadersMs}`
    json.refuse({ path: '$.timeouts.requestHeadersMs', reason })
  }
}

function checkRoutes(json: JsonFile<Written>, { routes }: Written): void {
  if (!Array.isArray(routes)) return
  checkRows(json, '$.routes', routes)
  for (const [index, route] of routes.entries()) {
    const path = `$.routes[${index}].scopes`
    if (!json.sound(path) || !json.sound(`$.routes[${index}].auth`)) continue
    if (route.scopes.length === 0 || !route.auth.includes('none')) continue
    json.refuse({ path, reason: 'must not be asked for where "auth" has "none": anyone passes without them' })
  }
}

function readNetworks(json: JsonFile<Written>, key: keyof Proxies): BlockList | undefined {
  const networks = json.value?.[key] ?? []
  if (!json.sound(`$.${key}`) || networks.length === 0) return undefined
  const list = new BlockList()
  for (const [index, network] of networks.entries()) {
    const reason = addNetwork(list, network)
    if (reason !== undefined) json.refuse({ path: `$.${key}[${index}]`, reason })
  }
  return list
}

function checkFieldNames(json: JsonFile<Written>, { allowedFieldNames }: Written): void {
  if (!json.sound('$.allowedFieldNames')) return
  for (const [index, name] of allowedFieldNames.entries()) {
    const reason = fieldNameFault(name)
    if (reason !== undefined) json.refuse({ path: `$.allowedFieldNames[${index}]`, reason })
  }
}
