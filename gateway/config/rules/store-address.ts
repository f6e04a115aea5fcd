import type { Fault, Parsed } from '../faults.ts'
import { LINE_END, loadText, type ReadFile } from '../load-file.ts'

/** One server: a data node, or a Sentinel. */
interface StoreAddress {
  readonly host: string
  readonly port: number
}

/** The server that gateways share their counts in: Redis or Valkey. */
export interface StoreSettings {
  /** `sentinel`: `addresses` are Sentinels, which know the master of `service`. */
  readonly kind: 'single' | 'cluster' | 'sentinel'
  readonly addresses: readonly StoreAddress[]
  readonly service: string | undefined
  /** Undefined: no TLS. `ca`: PEM; undefined: the roots that Node knows. */
  readonly tls: { readonly ca: string | undefined } | undefined
  readonly user: string | undefined
  /** Never logged. */
  readonly password: string | undefined
  /** Stands before every key, followed by a colon. */
  readonly prefix: string
  /** HMAC key for caller hashes in the store. Undefined: the first gateway puts a random key there. Never logged. */
  readonly hashKey: string | undefined
}

export const STORE_VARIABLES = [
  'GATEWAY_STORE',
  'GATEWAY_STORE_CA',
  'GATEWAY_STORE_USER',
  'GATEWAY_STORE_PASSWORD_FILE',
  'GATEWAY_STORE_PREFIX',
  'GATEWAY_STORE_KEY_FILE',
] as const

type StoreVariable = (typeof STORE_VARIABLES)[number]
type StoreEnvironment = Readonly<Partial<Record<string, string>>>

const DEFAULT_PORT = 6379
const DEFAULT_SENTINEL_PORT = 26379
const SCHEME = /^(rediss?(?:\+sentinel)?):\/\/(.*)$/s
const ADDRESS = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})))(?::(\d{1,5}))?$/
const SERVICE = /^[A-Za-z0-9._-]{1,64}$/
/** No braces: they would move the hash tag of a key. No colon: it ends the prefix. */
const PREFIX = /^[A-Za-z0-9._-]{1,64}$/
const USER = /^[\x21-\x7e]{1,128}$/
const PASSWORD = /^[\x20-\x7e]{1,512}$/
const HASH_KEY = /^[\x21-\x7e]{32,256}$/
const FORMS =
  'must be memory, redis://host:port, rediss://host:port, several of these with commas for a cluster, or redis+sentinel://host:port,host:port/service'

/**
 * No fault repeats an address, because people put passwords in addresses. @returns undefined for `memory`, the default
 */
export function parseStoreSettings(
  env: StoreEnvironment,
  readFile?: ReadFile,
): Parsed<StoreSettings | undefined> {
  const place = parseAddresses(env.GATEWAY_STORE ?? 'memory')
  const faults: Fault[] = []
  if (typeof place === 'string') return { faults: [fault('GATEWAY_STORE', place)] }
  if (place === undefined) return parseMemory(env)
  const user = env.GATEWAY_STORE_USER
  if (user !== undefined && !USER.test(user))
    faults.push(fault('GATEWAY_STORE_USER', 'must be 1 to 128 visible ASCII characters'))
  const prefix = env.GATEWAY_STORE_PREFIX ?? 'countersign'
  if (!PREFIX.test(prefix)) {
    const reason = 'must be 1 to 64 letters, digits, dots, dashes or underscores'
    faults.push(fault('GATEWAY_STORE_PREFIX', reason))
  }
  const read = (name: StoreVariable, pattern: RegExp, must: string): string | undefined => {
    const file = env[name]
    if (file === undefined) return undefined
    const faultOf = (text: string) => (pattern.test(text.replace(LINE_END, '')) ? undefined : must)
    const { text, reason } = loadText(file, faultOf, readFile)
    // The fault omits the file's name, which may be the password itself.
    if (reason !== undefined) faults.push(fault(name, `names a file that is not usable: ${reason}`))
    return text?.replace(LINE_END, '')
  }
  const password = read(
    'GATEWAY_STORE_PASSWORD_FILE',
    PASSWORD,
    'must hold one line of 1 to 512 ASCII characters',
  )
  const hashKey = read(
    'GATEWAY_STORE_KEY_FILE',
    HASH_KEY,
    'must hold one line of 32 to 256 visible ASCII characters',
  )
  const ca = read('GATEWAY_STORE_CA', /-----BEGIN CERTIFICATE-----/, 'must hold a certificate in PEM')
  if (env.GATEWAY_STORE_CA !== undefined && !place.secure) {
    faults.push(fault('GATEWAY_STORE_CA', 'needs TLS: write rediss:// in GATEWAY_STORE'))
  }
  if (user !== undefined && env.GATEWAY_STORE_PASSWORD_FILE === undefined) {
    faults.push(fault('GATEWAY_STORE_USER', 'needs GATEWAY_STORE_PASSWORD_FILE'))
  }
  if (faults.length > 0) return { faults }
  const { secure, ...rest } = place
  return {
    value: { ...rest, tls: secure ? { ca } : undefined, user, password, prefix, hashKey },
  }
}

/** Refuses store variables if no store is set, because their operator believes that limits are shared. */
function parseMemory(env: StoreEnvironment): Parsed<undefined> {
  const set = STORE_VARIABLES.filter((name) => name !== 'GATEWAY_STORE' && env[name] !== undefined)
  if (set.length === 0) return { value: undefined }
  return { faults: set.map((name) => fault(name, 'has no effect without a shared store: set GATEWAY_STORE')) }
}

type Place = Pick<StoreSettings, 'kind' | 'addresses' | 'service'> & { readonly secure: boolean }

/** @returns a string: what is wrong; undefined: memory */
function parseAddresses(text: string): Place | string | undefined {
  if (text === 'memory') return undefined
  if (text.includes('@')) {
    return 'must not hold a user or a password: set GATEWAY_STORE_USER and GATEWAY_STORE_PASSWORD_FILE'
  }
  const [, scheme, rest = ''] = SCHEME.exec(text) ?? []
  if (scheme === undefined) return FORMS
  const isSentinel = scheme.endsWith('+sentinel')
  const [, hosts = rest, service] = (isSentinel && /^([^/]*)\/(.*)$/s.exec(rest)) || []
  if (isSentinel && !SERVICE.test(service ?? ''))
    return 'must end with the name of the service that the Sentinels watch: /service'
  const addresses: StoreAddress[] = []
  for (const part of hosts.split(',')) {
    const [, again, host = part] = SCHEME.exec(part.trim()) ?? []
    if (again !== undefined && again !== scheme) return 'must have the same scheme in every address'
    const defaultPort = isSentinel ? DEFAULT_SENTINEL_PORT : DEFAULT_PORT
    const address = parseAddress(host.trim().replace(/\/$/, ''), defaultPort)
    if (typeof address === 'string') return address
    addresses.push(address)
  }
  const kind = addresses.length === 1 ? 'single' : 'cluster'
  return {
    kind: isSentinel ? 'sentinel' : kind,
    addresses,
    service,
    secure: scheme.startsWith('rediss'),
  }
}

function parseAddress(text: string, defaultPort: number): StoreAddress | string {
  if (text.includes('/')) return 'must not have a path: set GATEWAY_STORE_PREFIX instead of a database number'
  const [, six, name, digits] = ADDRESS.exec(text) ?? []
  const host = six ?? name
  const port = digits === undefined ? defaultPort : Number(digits)
  if (host === undefined) return FORMS
  return port >= 1 && port <= 65_535 ? { host, port } : 'must have ports between 1 and 65535'
}

function fault(path: StoreVariable, reason: string): Fault {
  return { file: 'environment', path, reason }
}
