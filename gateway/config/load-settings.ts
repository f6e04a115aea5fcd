import { hash } from 'node:crypto'
import { isIPv4 } from 'node:net'
import { configFiles, type Environment, NAMES, parseEnvironment } from './environment.ts'
import { ENVIRONMENT, type Fault, keyFaults, type Parsed } from './faults.ts'
import { type GatewayFile, parseGatewayFile } from './gateway-file.ts'
import { introspectionConflicts } from './issuers/introspection-settings.ts'
import type { Overrides } from './json/json-file.ts'
import { loadFile, namedText, type ParseFile, type ReadFile } from './load-file.ts'
import { auditConflicts } from './rules/audit-rules.ts'
import { decisionConflicts } from './rules/decision-rules.ts'
import { idempotencyConflicts } from './rules/idempotency-rules.ts'
import { fapiUriFault, sameIssuerFault } from './rules/issuer-rules.ts'
import { memoryProfileOf } from './rules/memory-profiles.ts'
import { reusePortFaults, reusesPort } from './rules/reuse-port.ts'
import { signatureConflicts, tokenConflicts, webhookConflicts } from './rules/row-rules.ts'
import { parseStoreSettings } from './rules/store-address.ts'
import { completeTls } from './rules/tls-rules.ts'
import { endpointVariable } from './rules/tracing-variables.ts'
import { httpUrlOf } from './rules/value-rules.ts'
import { missingKeyFaults, parseIdempotencyKeys, parseMaskKey, parseUpstreamSecret } from './secret-line.ts'
import type { Route, Settings } from './settings.ts'
import { loadSigningKeys, signingConflicts } from './signing-keys.ts'
import { loadTracing } from './tracing-settings.ts'
import { groupsInUse } from './upstreams/group-rules.ts'
import { loadUpstreamTls } from './upstreams/upstream-tls-files.ts'
import { loadAttestation } from './witness-settings.ts'

/** The settings of the file and the environment, or the settings in force. */
type Merged = Omit<GatewayFile, 'tracing' | 'audit'> & {
  readonly audit: GatewayFile['audit'] | Settings['audit']
}

/** Tells which of two conflicting settings a fault names: the one set by the environment, else the first. */
type Place = (...settings: readonly [Named, ...Named[]]) => Pick<Fault, 'file' | 'path'>
type Named = keyof GatewayFile | `audit.${keyof GatewayFile['audit']}` | 'tls.port'

const LOOPBACK = new Set(['localhost', '127.0.0.1', '::1'])
const EVERY_ADDRESS = new Set(['0.0.0.0', '::'])

/** Faults of environment and file are reported together. */
export function loadSettings(env: Environment, readFile?: ReadFile): Parsed<Settings> {
  const { configFile, limitsFile, clientsFile } = configFiles(env)
  const { overrides, faults } = parseEnvironment(env)
  const parse = (name: string, text: string) => parseGatewayFile(name, text, readFile, overrides)
  const file = loadFile(configFile, parse, { readFile, namedBy: NAMES.configFile })
  if (faults.length > 0 || file.faults !== undefined) {
    const alone = (name: string, text: string) => parseGatewayFile(name, text, readFile)
    const isFileSound = file.faults?.every((fault) => fault.file === ENVIRONMENT)
    const { value } = isFileSound ? loadFile(configFile, alone, { readFile }) : file
    const more = otherFaults({ env, configFile, file: value?.value, readFile })
    return { faults: [...faults, ...variableFaults(overrides, file.faults), ...(file.faults ?? []), ...more] }
  }
  const merged = file.value.value
  const tls = completeTls({ configFile, merged: merged.tls, overrides })
  const others = readOthers({ env, configFile, file: merged, readFile })
  const { secret, maskKey, idempotencyKeys, store, tracing, attestation, signing, upstreamTls } = others
  const hasStore = env.GATEWAY_STORE !== undefined && env.GATEWAY_STORE !== 'memory'
  const conflicts = [
    ...faultsOf(others),
    ...idempotencyFaults(merged, configFile, hasStore),
    ...missingKeyFaults({ ...merged, configFile }, hasStore),
    ...reusePortFaults({ port: merged.port, tls: tls.value }, { env, platform: process.platform }),
    ...spanLoops(endpointPlace(configFile, env), merged, tracing.value?.receiver.endpoint),
    ...conflictsOf(merged, configFile, placeIn(configFile, overrides), readFile),
    ...(tls.faults ?? []),
  ]
  if (tls.faults !== undefined || conflicts.length > 0) return { faults: conflicts }
  const { jwksUri = defaultJwksUri(merged), audience = `${merged.issuer.replace(/\/$/, '')}/api` } = merged
  const { publicUrls = [new URL(merged.issuer).origin] } = merged.dpop
  const { sealKeyFile } = merged.audit
  const sealKey = sealKeyFile && namedText(sealKeyFile, readFile).text
  const files = { configFile, limitsFile, clientsFile: clientsInUse(env, merged) ? clientsFile : undefined }
  return {
    value: {
      ...merged,
      ...files,
      memoryProfile: memoryProfileOf(env),
      tls: tls.value,
      store: store.value,
      reusePort: reusesPort(env),
      tracing: tracing.value,
      audit: {
        ...merged.audit,
        sealKey: sealKey && hash('sha256', sealKey),
        witnesses: attestation?.value?.witnesses,
        stamps: attestation?.value?.stamps,
      },
      upstreamTls: upstreamTls?.value ?? {},
      upstreamSecret: secret?.value?.value,
      idempotencyKeys: idempotencyKeys?.value?.value,
      maskKey: maskKey?.value?.value,
      signingKeys: signing?.value ?? [],
      jwksUri,
      audience,
      dpop: { ...merged.dpop, publicUrls },
    },
  }
}

/** Finds conflicts between edited keys and keys that wait for a restart. */
export function conflictsInForce(settings: Settings): Fault[] {
  const { configFile, store } = settings
  return [
    ...idempotencyFaults(settings, configFile, store !== undefined),
    ...missingKeyFaults(settings, store !== undefined),
    ...conflictsOf(settings, configFile, placeIn(configFile, new Map())),
  ]
}

function idempotencyFaults(merged: Merged, configFile: string, hasStore: boolean): Fault[] {
  const { routes } = merged
  const groups = new Map(groupsInUse(merged).map(({ name, targets }) => [name, targets]))
  return idempotencyConflicts(configFile, { routes, groups, hasStore })
}

interface OtherSources {
  readonly env: Environment
  readonly configFile: string
  /** Undefined when it has faults of its own. */
  readonly file: GatewayFile | undefined
  readonly readFile: ReadFile | undefined
}

function readOthers({ env, configFile, file, readFile }: OtherSources) {
  const { upstreamSecretFile, maskKeyFile, idempotencyKeyFile } = file ?? {}
  const load = <T>(name: string | undefined, parse: ParseFile<T>, namedBy: string) =>
    name ? loadFile(name, parse, { readFile, namedBy }) : undefined
  const secretFile = env.GATEWAY_UPSTREAM_SECRET_FILE || upstreamSecretFile
  return {
    secret: load(secretFile, parseUpstreamSecret, NAMES.upstreamSecretFile),
    maskKey: load(maskKeyFile, parseMaskKey, '"maskKeyFile"'),
    idempotencyKeys: load(idempotencyKeyFile, parseIdempotencyKeys, '"idempotencyKeyFile"'),
    store: parseStoreSettings(env, readFile),
    attestation: file && loadAttestation({ configFile, written: file.audit, readFile }),
    signing: file && loadSigningKeys({ configFile, signing: file.signing, readFile }),
    tracing: loadTracing({ configFile, written: file?.tracing, env, readFile }),
    upstreamTls: file && loadUpstreamTls({ ...file, configFile, readFile }),
  }
}

function faultsOf(others: ReturnType<typeof readOthers>): Fault[] {
  return Object.values(others).flatMap((one) => one?.faults ?? [])
}

/** Finds faults of variables, and of the files that keys or variables name. */
export function otherFaults({ file, ...sources }: OtherSources): Fault[] {
  // GATEWAY_UPSTREAM replaces the targets of the default group, so those of the file need not speak TLS.
  const own = file && sources.env.GATEWAY_UPSTREAM !== undefined ? { ...file, upstream: [] } : file
  return faultsOf(readOthers({ ...sources, file: own }))
}

/** Finds faults of variables that faults of the file would hide. */
function variableFaults(overrides: Overrides, inFile: readonly Fault[] = []): readonly Fault[] {
  if (inFile.length === 0 || inFile.some(({ file }) => file === ENVIRONMENT)) return []
  const { faults = [] } = parseGatewayFile('', '{}', undefined, overrides)
  return faults.filter(({ file }) => file === ENVIRONMENT)
}

/** True when clients.json must be there: a route accepts machine clients, or GATEWAY_CLIENTS is set. */
export function clientsInUse(env: Environment, { routes }: Pick<GatewayFile, 'routes'>): boolean {
  const isOfClients = ({ auth, isSigned }: Pick<Route, 'auth' | 'isSigned'>) =>
    isSigned || auth.has('mtls') || auth.has('hmac') || auth.has('signature')
  return env.GATEWAY_CLIENTS !== undefined || routes.some(isOfClients)
}

function isLoopback(host: string): boolean {
  return LOOPBACK.has(host) || (isIPv4(host) && host.startsWith('127.'))
}

function adminFaults(
  { adminHost, adminTokenFile, adminOpen }: Pick<Settings, 'adminHost' | 'adminTokenFile' | 'adminOpen'>,
  place: Pick<Fault, 'file' | 'path'>,
): Fault[] {
  if (isLoopback(adminHost) || adminTokenFile !== undefined || adminOpen) return []
  const reason = `${adminHost} is reached by others than this machine, and metrics and console would be open to all of them: name the file of a token in GATEWAY_ADMIN_TOKEN_FILE, or set GATEWAY_ADMIN_OPEN=true`
  return [{ ...place, reason }]
}

function placeIn(configFile: string, overrides: Overrides): Place {
  return (...settings) => {
    const paths = settings.map((setting) => `$.${setting}`)
    const [variable] = paths.flatMap((path) => overrides.get(path)?.variable ?? [])
    return variable === undefined
      ? { file: configFile, path: paths[0] as string }
      : { file: ENVIRONMENT, path: variable }
  }
}

/** Finds conflicts between settings that are each valid alone. */
function conflictsOf(merged: Merged, configFile: string, place: Place, readFile?: ReadFile): Fault[] {
  const faults: Fault[] = []
  const refuse = (at: ReturnType<Place>, reason: string) => faults.push({ ...at, reason })
  const { host, port, adminHost, adminPort, audit, tls } = merged
  if (port !== 0 && port === adminPort && addressesMeet(host, adminHost))
    refuse(place('adminPort', 'port'), `the public and the admin listener must not both have port ${port}`)
  if (tls?.port && tls.port === port)
    refuse(place('tls.port'), `must not be the port of the HTTP listener too (${port})`)
  if (tls?.port && tls.port === adminPort && addressesMeet(host, adminHost))
    refuse(place('tls.port'), `must not be the port of the admin listener too (${adminPort})`)
  for (const upstream of merged.upstream) {
    const listener = ownListener(upstream, merged)
    if (listener !== undefined) refuse(place('upstream', listener), loopReason(upstream))
  }
  const needsKeys = merged.routes.some((route) => route.auth.has('bearer'))
  if (needsKeys && merged.jwksUri === undefined && !merged.upstream.some(hasKeys)) {
    const reason =
      'is missing: routes accept bearer tokens, and no upstream is http or https to fetch their keys from'
    refuse(place('jwksUri'), reason)
  }
  if (audit.durability === 'synced' && audit.file === '-') {
    const reason = 'must be the name of a file: standard output cannot be synced'
    refuse(place('audit.file', 'audit.durability'), reason)
  }
  if (audit.retention?.unsealed === false && audit.seals === 'off') {
    const reason =
      'has no seals, so audit.retention removes nothing: turn them on, or set audit.retention.unsealed'
    refuse(place('audit.seals'), reason)
  }
  return [
    ...faults,
    ...auditConflicts(configFile, audit, (key) => place(key).path),
    ...adminFaults(merged, place('adminHost')),
    ...groupLoops(configFile, merged),
    ...certificateConflicts(configFile, merged.routes, tls),
    ...issuerConflicts(merged, configFile, place),
    ...introspectionConflicts({ ...merged, configFile, issuers: [merged, ...merged.issuers], readFile }),
    ...webhookConflicts(configFile, merged.routes),
    ...signatureConflicts(configFile, merged.routes),
    ...tokenConflicts(configFile, merged.routes),
    ...decisionConflicts(configFile, merged.routes),
    ...signingConflicts(configFile, merged),
  ]
}

function groupLoops(file: string, merged: Pick<Merged, 'upstreams' | 'host' | 'port' | 'tls'>): Fault[] {
  return Object.entries(merged.upstreams).flatMap(([name, { targets = [] }]) =>
    targets.flatMap((target, index) => {
      const path = `$.upstreams.${name}.targets[${index}]`
      return ownListener(target, merged) === undefined ? [] : [{ file, path, reason: loopReason(target) }]
    }),
  )
}

function loopReason(upstream: string): string {
  return `the upstream ${upstream} is the gateway's own listener: requests would loop`
}

function spanLoops(
  place: Pick<Fault, 'file' | 'path'>,
  merged: Pick<Merged, 'host' | 'port' | 'tls'>,
  endpoint: string | undefined,
): Fault[] {
  if (endpoint === undefined || ownListener(endpoint, merged) === undefined) return []
  return [{ ...place, reason: `${endpoint} is the gateway's own listener: spans of spans would never end` }]
}

function endpointPlace(configFile: string, env: Environment): Pick<Fault, 'file' | 'path'> {
  const variable = endpointVariable(env)
  return variable === undefined
    ? { file: configFile, path: '$.tracing.endpoint' }
    : { file: ENVIRONMENT, path: variable }
}

function certificateConflicts(file: string, routes: readonly Route[], tls: Merged['tls']): Fault[] {
  if (tls?.clientCaFile !== undefined) return []
  const reason =
    'accepts nothing but client certificates, and no HTTPS listener asks for any: set tls.clientCaFile'
  return keyFaults(file, routes, ({ auth }) =>
    auth.has('mtls') && auth.size === 1 ? { key: 'auth', reason } : undefined,
  )
}

function issuerConflicts(merged: Merged, configFile: string, place: Place): Fault[] {
  const { issuer, profile, issuers, jwksUri = defaultJwksUri(merged) } = merged
  const faults: Fault[] = []
  for (const [index, other] of issuers.entries()) {
    const reason = sameIssuerFault({ issuer, jwksUri }, other, `$.issuers[${index}]`)
    if (reason !== undefined) faults.push({ ...place('issuer', 'jwksUri'), reason })
  }
  const names = [issuer, ...issuers.map((other) => other.issuer)]
  const trustFaults = keyFaults(configFile, merged.routes, ({ trustIssuers, auth }) => {
    const unknown = [...(trustIssuers ?? [])].find((name) => !names.includes(name))
    const reason =
      unknown === undefined
        ? 'needs "bearer" in "auth": only tokens have an issuer'
        : `names no issuer that is trusted: "${unknown}"; the issuers are ${names.join(', ')}`
    const isGood = unknown === undefined && (trustIssuers === undefined || auth.has('bearer'))
    return isGood ? undefined : { key: 'trustIssuers', reason }
  })
  faults.push(...trustFaults)
  const reason = profile === 'fapi' ? fapiUriFault(jwksUri) : undefined
  if (reason !== undefined) faults.push({ ...place('jwksUri', 'upstream'), reason })
  return faults
}

/** The default of `jwksUri`: at the first upstream of HTTP/1.1 that is not a socket, else at the issuer. */
function defaultJwksUri({ upstream, issuer }: Merged): string {
  const base = upstream.find(hasKeys) ?? issuer.replace(/\/$/, '')
  return `${base}/.well-known/jwks.json`
}

function hasKeys(upstream: string): boolean {
  return /^https?:/.test(upstream)
}

/** Finds the key of our own listener that a URL leads to. */
function ownListener(
  url: string,
  { host, port, tls }: Pick<Merged, 'host' | 'port' | 'tls'>,
): 'port' | 'tls.port' | undefined {
  if (reaches(url, 'http:', { host, port })) return 'port'
  return tls?.port && reaches(url, 'https:', { host, port: tls.port }) ? 'tls.port' : undefined
}

function reaches(
  upstream: string,
  protocol: 'http:' | 'https:',
  { host, port }: Pick<Merged, 'host' | 'port'>,
): boolean {
  const text = httpUrlOf(upstream)
  if (!text.startsWith(protocol)) return false
  const url = new URL(text)
  if (Number(url.port || (protocol === 'http:' ? 80 : 443)) !== port) return false
  const name = url.hostname.replace(/^\[|\]$/g, '')
  return name === host || (LOOPBACK.has(name) && (EVERY_ADDRESS.has(host) || addressesMeet(name, host)))
}

function addressesMeet(one: string, other: string): boolean {
  if (one === other || EVERY_ADDRESS.has(one) || EVERY_ADDRESS.has(other)) return true
  // `localhost` may be either loopback address.
  return LOOPBACK.has(one) && LOOPBACK.has(other) && (one === 'localhost' || other === 'localhost')
}
