import type { Fault, Parsed } from '../faults.ts'
import { loadFile, type ReadFile } from '../load-file.ts'

/** One server: a data node, or a Sentinel. */
interface StoreAddress {
  readonly host: string
  readonly port: number
}

/** The server that gateways share their counts in: Redis or Valkey. Immutable. */
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
  /** In front of every key and followed by a colon. */
  readonly prefix: string
  /** Keys the hashes of callers in the store. Undefined: the first gateway leaves a random one in the store. Never logged. */
  readonly hashKey: string | undefined
}

/** The variables that begin with `GATEWAY_STORE`. */
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
const DEFAULT_PREFIX = 'countersign'
const SCHEME = /^(redis|rediss|redis\+sentinel|rediss\+sentinel):\/\/(.*)$/s
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
 * Reads where the shared store is, with its files. A fault names the variable; no fault repeats an address, because
 * people write passwords into addresses.
 *
 * @returns undefined for `memory`, the default
 */
export function parseStoreSettings(
  env: StoreEnvironment,
  readFile?: ReadFile,
): Parsed<StoreSettings | undefined> {
  const place = parseAddresses(env.GATEWAY_STORE ?? 'memory')
  const faults: Fault[] = []
  if (typeof place === 'string') return { faults: [fault('GATEWAY_STORE', place)] }
  if (place === undefined) return parseMemory(env)
  const check = (name: StoreVariable, pattern: RegExp, reason: string): string | undefined => {
    const text = env[name]
    if (text !== undefined && !pattern.test(text)) faults.push(fault(name, reason))
    return text
  }
  const read = (name: StoreVariable, pattern: RegExp, reason: string): string | undefined => {
    const loaded = readLine(name, env[name], { pattern, reason }, readFile)
    faults.push(...(loaded.faults ?? []))
    return loaded.value
  }
  const user = check('GATEWAY_STORE_USER', USER, 'must be 1 to 128 visible ASCII characters')
  const prefix = check(
    'GATEWAY_STORE_PREFIX',
    PREFIX,
    'must be 1 to 64 letters, digits, dots, dashes or underscores',
  )
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
    value: {
      ...rest,
      tls: secure ? { ca } : undefined,
      user,
      password,
      prefix: prefix ?? DEFAULT_PREFIX,
      hashKey,
    },
  }
}

/** Settings of a store without a store are a mistake: the operator believes that limits are shared. */
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
  const [, scheme, rest] = SCHEME.exec(text) ?? []
  if (scheme === undefined || rest === undefined) return FORMS
  const secure = scheme.startsWith('rediss')
  if (scheme.endsWith('+sentinel')) return parseSentinels(rest, secure)
  const hosts: string[] = []
  for (const [index, part] of rest.split(',').entries()) {
    const [, again, host = part] = SCHEME.exec(part.trim()) ?? []
    if (index > 0 && again !== undefined && again !== scheme)
      return 'must have the same scheme in every address'
    hosts.push(host.trim().replace(/\/$/, ''))
  }
  const addresses = hosts.map((host) => parseAddress(host, DEFAULT_PORT))
  const wrong = addresses.find((address) => typeof address === 'string')
  if (typeof wrong === 'string') return wrong
  const kind = addresses.length === 1 ? 'single' : 'cluster'
  return { kind, addresses: addresses as StoreAddress[], service: undefined, secure }
}

function parseSentinels(rest: string, secure: boolean): Place | string {
  const slash = rest.indexOf('/')
  const service = slash < 0 ? '' : rest.slice(slash + 1)
  if (!SERVICE.test(service))
    return 'must end with the name of the service that the Sentinels watch: /service'
  const hosts = rest.slice(0, slash).split(',')
  const addresses = hosts.map((host) => parseAddress(host.trim(), DEFAULT_SENTINEL_PORT))
  const wrong = addresses.find((address) => typeof address === 'string')
  if (typeof wrong === 'string') return wrong
  return { kind: 'sentinel', addresses: addresses as StoreAddress[], service, secure }
}

function parseAddress(text: string, defaultPort: number): StoreAddress | string {
  if (text.includes('/'))
    return 'must not have a path: databases are not numbered, GATEWAY_STORE_PREFIX divides them'
  const [, six, name, digits] = ADDRESS.exec(text) ?? []
  const host = six ?? name
  const port = digits === undefined ? defaultPort : Number(digits)
  if (host === undefined) return FORMS
  return port >= 1 && port <= 65_535 ? { host, port } : 'must have ports between 1 and 65535'
}

/** Reads a secret or a certificate; the line end of a secret's last line does not belong to it. */
function readLine(
  name: StoreVariable,
  file: string | undefined,
  { pattern, reason }: { readonly pattern: RegExp; readonly reason: string },
  readFile?: ReadFile,
): Parsed<string | undefined> {
  if (file === undefined) return { value: undefined }
  const { value, faults } = loadFile(
    file,
    (_, text): Parsed<string> => {
      const line = text.replace(/\r?\n$/, '')
      return pattern.test(line) ? { value: line } : { faults: [{ file, path: '$', reason }] }
    },
    { readFile },
  )
  if (faults === undefined) return { value: value.value }
  return {
    // Without its name: what stands there may be the password itself.
    faults: faults.map((each) => fault(name, `names a file that is not usable: ${each.reason}`)),
  }
}

function fault(path: StoreVariable, reason: string): Fault {
  return { file: 'environment', path, reason }
}
