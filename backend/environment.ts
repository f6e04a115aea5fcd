import { isIPv4 } from 'node:net'

const MEBIBYTE = 1024 * 1024
const GIBIBYTE = 1024 * MEBIBYTE

/** The settings of the backend. The public URLs have no final slash. */
export type Environment = Readonly<ReturnType<typeof readSettings>>

/** Reads the settings, or gives a line for every fault. No line holds a password. */
export function readEnvironment(variables: NodeJS.ProcessEnv): Environment | { readonly faults: string[] } {
  const faults: string[] = []
  const settings = readSettings(variables, faults)
  return faults.length === 0 ? settings : { faults }
}

function readSettings(variables: NodeJS.ProcessEnv, faults: string[]) {
  const read = (name: string, usual: number, from: number, to: number) => {
    const text = variables[name]
    if (!text) return usual
    const number = Number(text)
    if (!/^\d{1,16}$/.test(text) || number < from || number > to)
      faults.push(`${name} is "${text}"; it must be ${from} to ${to}`)
    return number
  }
  return {
    host: readHost(variables, faults),
    port: read('BACKEND_PORT', 3000, 0, 65_535),
    /** The file with the secret by which the gateway proves itself; undefined only on loopback. */
    gatewaySecretFile: variables.BACKEND_GATEWAY_SECRET_FILE || undefined,
    /** `postgres://…`. Without it the embedded database in `dataDirectory` is used. */
    databaseUrl: readDatabaseUrl(variables.DATABASE_URL, faults),
    dataDirectory: variables.BACKEND_DATA_DIR || 'data/backend',
    publicUrl: readPublicUrl(variables, 'PUBLIC_URL', faults) ?? 'http://localhost:8080',
    /** The URL at which clients present certificates, if not `publicUrl`. */
    mtlsUrl: readPublicUrl(variables, 'PUBLIC_MTLS_URL', faults),
    demo: readDemo(variables, faults),
    /** A file with OAuth clients, besides those of `demo`. */
    oauthClientsFile: variables.BACKEND_OAUTH_CLIENTS || undefined,
    keyRotationDays: read('BACKEND_KEY_ROTATION_DAYS', 30, 1, 365),
    webhookRetentionDays: read('BACKEND_WEBHOOK_RETENTION_DAYS', 30, 1, 36_500),
    /** The most bytes of webhooks kept for one client: at least 1 MiB, the size of the largest webhook. */
    webhookClientMaxBytes: read('BACKEND_WEBHOOK_CLIENT_MAX_BYTES', GIBIBYTE, MEBIBYTE, MEBIBYTE * GIBIBYTE),
  }
}

/** The address to listen at. Beyond loopback the gateway must prove itself, or others could claim to be any caller. */
function readHost(variables: NodeJS.ProcessEnv, faults: string[]): string {
  const host = variables.BACKEND_HOST || '127.0.0.1'
  const isLoopback = host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
  if (!isLoopback && !variables.BACKEND_GATEWAY_SECRET_FILE) {
    faults.push(
      `BACKEND_HOST is "${host}", which others can reach: BACKEND_GATEWAY_SECRET_FILE must name the file with the secret that the gateway sends (its GATEWAY_UPSTREAM_SECRET_FILE)`,
    )
  }
  return host
}

function readDatabaseUrl(text: string | undefined, faults: string[]): string | undefined {
  if (!text) return undefined
  // The fault does not quote the value, which contains a password.
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(text)) {
    faults.push('DATABASE_URL must be a URL of the form postgres://user:password@host:port/database')
  }
  return text
}

function readPublicUrl(
  variables: NodeJS.ProcessEnv,
  name: 'PUBLIC_URL' | 'PUBLIC_MTLS_URL',
  faults: string[],
): string | undefined {
  const text = variables[name]
  if (!text) return undefined
  const url = URL.parse(text)
  // Certificates need TLS.
  const schemes = name === 'PUBLIC_URL' ? ['http:', 'https:'] : ['https:']
  if (url === null || !schemes.includes(url.protocol) || /[\s\\?#@]/.test(text)) {
    const allowed = schemes.map((scheme) => scheme.slice(0, -1)).join(' or ')
    faults.push(
      `${name} must be an ${allowed} URL without spaces, backslashes, query, fragment, user and password`,
    )
  } else if (/[^/]/.test(url.pathname)) {
    faults.push(
      `${name} is "${text}"; it must have no path: the gateway serves the API at the root of an address`,
    )
  }
  return text.replace(/\/+$/, '')
}

function readDemo({ BACKEND_DEMO, NODE_ENV }: NodeJS.ProcessEnv, faults: string[]): boolean {
  const isProduction = NODE_ENV === 'production'
  if (!BACKEND_DEMO) return !isProduction
  if (BACKEND_DEMO !== 'true' && BACKEND_DEMO !== 'false') {
    faults.push(`BACKEND_DEMO is "${BACKEND_DEMO}"; it must be true or false`)
  }
  if (BACKEND_DEMO === 'true' && isProduction) {
    faults.push(
      'BACKEND_DEMO is true and NODE_ENV is production: users with a known password are refused in production',
    )
  }
  return BACKEND_DEMO === 'true'
}
