import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ACR, AUDIENCE, ISSUER } from '../bench-tokens.ts'
import { type Child, startChild } from '../child.ts'
import { type Contender, type ContenderSetup, type RunningContender, YOUNG_OBJECTS } from '../contender.ts'
import { DECISION_PATH, HUGE_BYTES, HUGE_PATH, INTROSPECTION_PATH } from '../upstream-responses.ts'

/** A path with so low a limit that each hit's time is kept. */
export const PAYMENTS_PATH = '/api/payments'
const MANY = 1_000_000_000

/** Limits that count every request and refuse none. */
const LIMITS = {
  limits: [
    { path: '/api/balance', limit: MANY, window: '1m', purpose: 'Counted for the benchmark' },
    { path: PAYMENTS_PATH, limit: 1000, window: '1m', purpose: 'Counted hit by hit for the benchmark' },
    { path: '/api/transfer', limit: MANY, window: '1h', purpose: 'Counted and journalled for the benchmark' },
  ],
}
/** With the default deadline, a gateway on a busy machine would sometimes decide without the store. */
const ALWAYS_STORE = { onStoreFailure: { deadlineMs: 1000 } }
const ROUTES = [
  { path: '/api/balance', methods: ['GET'], auth: ['bearer'], scopes: ['a:r'] },
  { path: PAYMENTS_PATH, methods: ['GET'], auth: ['bearer'], scopes: ['a:r'] },
  { path: '/api/accounts', methods: ['GET'], auth: ['bearer'], scopes: ['a:r'] },
  { path: '/api/data', methods: ['GET'], auth: ['bearer'], scopes: ['a:r'] },
  {
    path: HUGE_PATH,
    methods: ['GET', 'POST'],
    auth: ['bearer'],
    scopes: ['a:r'],
    maxBodyBytes: 2 * HUGE_BYTES,
  },
  { path: '/api/transfer', methods: ['POST'], auth: ['bearer'], scopes: ['t:w'] },
]

/** What is turned on in one gateway beyond the others. */
export interface Additions {
  readonly config?: object
  readonly route?: object
  /** Validates requests. */
  readonly openApi?: object
  /** Asks the issuer about every token (RFC 7662). */
  readonly introspects?: boolean
  /** Asks a decider (AuthZEN) about every request. */
  readonly decides?: boolean
  /** Client and gateway have signing keys, whether routes ask for signatures or not. */
  readonly hasSigningKeys?: boolean
}

/** Tokens name no client; `acr`, the same in all, takes its place. */
const CLIENT = { tokens: { clientClaims: ['acr'] }, dpop: { publicUrls: ['https://api.example.test'] } }
/** clients.json is only read with a row that asks for a client's signature. */
const SIGNED_ROW = { path: '/api/signed', auth: ['signature'] }

interface Program {
  readonly root: string
  /** Path of the program below `root`. Default: gateway/main.ts. */
  readonly program?: string
  /** Node's own options, such as a profiler's. */
  readonly execArgv?: readonly string[]
  readonly additions?: Additions
}

export function gateway(options: Program & { readonly name: string }): Contender {
  const { name, root } = options
  return {
    name,
    work: 'token verified (cache), scope, exact limit, two audit records, metrics, six security headers, request id, trace id',
    authenticates: true,
    version: () => JSON.parse(readFileSync(manifestOf(root), 'utf8')).version,
    start: (setup) => start(options, setup),
  }
}

/** Older trees have one manifest, at the root. */
function manifestOf(root: string): string {
  const own = join(root, 'gateway/package.json')
  return existsSync(own) ? own : join(root, 'package.json')
}

async function start(program: Program, setup: ContenderSetup): Promise<RunningContender> {
  const { root, program: path = 'gateway/main.ts', execArgv = [], additions = {} } = program
  const { dir, upstreamPort, tls, upstreamCaFile } = setup
  const auditFile = join(dir, 'audit.ndjson')
  const write = (name: string, value: object) => {
    const file = join(dir, name)
    writeFileSync(file, JSON.stringify(value))
    return file
  }
  const onStore = setup.gatewayEnv.GATEWAY_STORE === undefined ? {} : ALWAYS_STORE
  const { config, route, openApi, introspects, decides, hasSigningKeys } = additions
  const signature = { jwksFile: setup.tokens.jwksFile, profile: 'fapi-2' }
  const decision = decides && {
    decision: { url: `http://127.0.0.1:${upstreamPort}${DECISION_PATH}`, timeoutMs: 10_000 },
  }
  const base = {
    issuer: ISSUER,
    audience: AUDIENCE,
    // One address, the load generator's, gets three quarters of these and of the connections that 20,000 files allow.
    maxInFlight: 5600,
    ...(setup.http2 && { http2: true }),
    routes: [
      ...ROUTES.map((row) => ({ ...row, ...route, ...decision })),
      ...(hasSigningKeys ? [SIGNED_ROW] : []),
    ],
    ...(hasSigningKeys && {
      ...CLIENT,
      signing: { keyFile: setup.tokens.signingKeyFile, algorithm: 'ecdsa-p256-sha256' },
    }),
    ...(openApi && { openapi: { file: write('api.json', openApi), validateRequests: true } }),
    ...(introspects && {
      introspection: {
        url: `http://127.0.0.1:${upstreamPort}${INTROSPECTION_PATH}`,
        clientId: 'gateway',
        clientSecretFile: write('introspection-secret', ['secret']),
        for: 'all',
      },
    }),
    ...onStore,
    ...config,
  }
  const upstream =
    upstreamCaFile === undefined ? `http://127.0.0.1:${upstreamPort}` : `https://localhost:${upstreamPort}`
  const child = startChild({
    command: [process.execPath, ...execArgv, ...YOUNG_OBJECTS, join(root, path)],
    cpus: setup.cpus,
    env: {
      NODE_ENV: 'production',
      GATEWAY_CONFIG: write('gateway.json', { ...base, upstream }),
      GATEWAY_LIMITS: write('limits.json', LIMITS),
      ...(hasSigningKeys && {
        GATEWAY_CLIENTS: write('clients.json', { clients: [{ id: ACR, signature }] }),
      }),
      GATEWAY_AUDIT_FILE: auditFile,
      GATEWAY_DATA_DIR: join(dir, 'data'),
      GATEWAY_PORT: '0',
      GATEWAY_ADMIN_PORT: '0',
      ...(tls && { GATEWAY_TLS_PORT: '0', GATEWAY_TLS_CERT: tls.certFile, GATEWAY_TLS_KEY: tls.keyFile }),
      ...(upstreamCaFile && { NODE_EXTRA_CA_CERTS: upstreamCaFile }),
      ...setup.gatewayEnv,
    },
  })
  return {
    ports: [await portOf(child, tls === undefined ? 'port' : 'tlsPort')],
    pids: [child.pid],
    tidy: () => rotate(child, auditFile),
    end: child.end,
  }
}

/** The port that the gateway logs. Rejects with its message when it does not start. */
export function portOf(child: Child, which: 'port' | 'tlsPort' = 'port'): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = ''
    child.process.stderr?.on('data', (piece: string) => {
      text += piece
      const line = text.split('\n').find((one) => one.includes('"msg":"listening"'))
      if (line !== undefined) resolve((JSON.parse(line) as Record<typeof which, number>)[which])
    })
    child.process.once('exit', () => reject(new Error(child.said().trim().slice(0, 500))))
  })
}

/** Deletes the trail; SIGHUP opens another. */
function rotate(child: Child, auditFile: string): void {
  if (statSync(auditFile).size === 0) return
  renameSync(auditFile, `${auditFile}.old`)
  child.process.kill('SIGHUP')
  rmSync(`${auditFile}.old`)
}
