import { BlockList } from 'node:net'
import type { Settings } from './settings.ts'

/**
 * Whether a setting is shown as it is: `false` where it may hold a secret, or is shown in another place or form. Names of files are
 * no secrets; that of the seals' key is left out all the same.
 */
const SHOWN: Readonly<Record<keyof Settings, boolean>> = {
  configFile: false,
  limitsFile: false,
  clientsFile: false,
  upstreamSecret: false,
  upstreamTls: false,
  store: false,
  tracing: false,
  routes: false,
  openapi: false,
  host: true,
  port: true,
  adminHost: true,
  adminPort: true,
  adminNames: true,
  adminTokenFile: false,
  adminOpen: true,
  tls: true,
  upstreams: true,
  upstreamGroups: true,
  issuer: true,
  issuerIsDefault: false,
  jwksUri: true,
  audience: true,
  algorithms: true,
  profile: true,
  issuers: true,
  jwksMaxStaleMs: true,
  dpop: true,
  authThrottle: true,
  addressRate: true,
  auditFile: true,
  auditDurability: true,
  auditSeals: true,
  auditSealKeyFile: false,
  auditSecondSealKey: true,
  auditOrigin: true,
  auditRotation: true,
  auditWitnesses: true,
  auditStamps: true,
  auditRetention: true,
  auditShip: true,
  dataDir: true,
  logLevel: true,
  http2: true,
  via: true,
  interactionId: true,
  maxInFlight: true,
  maxTunnels: true,
  onStoreFailure: true,
  onJournalFailure: true,
  trustedProxies: true,
  clientCertProxies: true,
  allowedFieldNames: true,
  memoryProfile: true,
  reusePort: true,
  drainGraceMs: true,
  timeouts: true,
  addresses: true,
  leniency: true,
  responseLines: true,
}

/** The settings as JSON, without secrets: of those it says only whether they are set. */
export function shownSettings(settings: Settings): Record<string, unknown> {
  const { store, upstreamSecret } = settings
  const shown = Object.entries(settings).filter(([key]) => SHOWN[key as keyof Settings])
  return plain({
    ...Object.fromEntries(shown),
    openapi: settings.openapi && { file: settings.openapi.file, hash: settings.openapi.hash },
    hasUpstreamSecret: upstreamSecret !== undefined,
    store: store && {
      kind: store.kind,
      addresses: store.addresses,
      service: store.service,
      tls: store.tls !== undefined,
      user: store.user,
      prefix: store.prefix,
      hasPassword: store.password !== undefined,
      hasKey: store.hashKey !== undefined,
    },
  })
}

/** A value as JSON has it: a set is a sorted list, a list of networks its rules, a pattern its source. */
export function plain<T>(value: T): T {
  return JSON.parse(
    JSON.stringify(value, (_key, part: unknown) => {
      if (part instanceof Set) return [...part].sort()
      if (part instanceof RegExp) return part.source
      return part instanceof BlockList ? part.rules : part
    }),
  )
}
