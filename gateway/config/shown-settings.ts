import { BlockList } from 'node:net'
import type { WrittenGateway } from './keys/gateway-keys.ts'
import type { Settings } from './settings.ts'

/** `false`: the key may hold a secret, or is shown in another form. Keys that are not listed are shown. */
const SHOWN: Readonly<
  Record<Exclude<keyof Settings, keyof WrittenGateway>, boolean> &
    Partial<Record<keyof WrittenGateway, boolean>>
> = {
  configFile: false,
  limitsFile: false,
  clientsFile: false,
  upstreamSecret: false,
  upstreamSecretFile: false,
  idempotencyKeys: false,
  maskKey: false,
  signingKeys: false,
  upstreamTls: false,
  store: false,
  tracing: false,
  routes: false,
  openapi: false,
  audit: false,
  adminTokenFile: false,
  issuerIsDefault: false,
  clockToleranceMs: true,
  memoryProfile: true,
  reusePort: true,
  leniency: true,
  responseLines: true,
}

/** Makes plain data of the settings, without secrets. Keys such as `hasPassword` say whether one is set. */
export function shownSettings(settings: Settings): Record<string, unknown> {
  const { store, upstreamSecret, openapi } = settings
  const { sealKeyFile: _file, sealKey: _key, ...audit } = settings.audit
  const shown = Object.entries(settings).filter(([key]) => SHOWN[key as keyof Settings] ?? true)
  return plain({
    ...Object.fromEntries(shown),
    audit,
    openapi: openapi && { file: openapi.file, hash: openapi.hash },
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

/** A set becomes a sorted list, a list of networks its rules, a pattern its source. */
export function plain<T>(value: T): T {
  if (value === undefined) return value
  return JSON.parse(
    JSON.stringify(value, (_key, part: unknown) => {
      if (part instanceof Set) return [...part].sort()
      if (part instanceof RegExp) return part.source
      return part instanceof BlockList ? part.rules : part
    }),
  )
}
