import { createHmac, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type AuditRecord, readAudit } from './audit-file.ts'
import { type Configuration, writeConfiguration } from './configuration-files.ts'
import { type LogLine, type RunningProcess, startProgram } from './running-process.ts'
import type { AuthorityFiles, ClientCertificate } from './test-authority.ts'
import { createIssuer, type TestIssuer } from './test-issuer.ts'

/** `countersign/testing`: a real gateway before a service, in its own process and directory, on free ports. */

export type { AuditRecord, ClientCertificate, LogLine }

export interface GatewayOptions extends Configuration {
  /** The service's address. Default: from the configuration. */
  readonly upstream?: string
  /** Further variables, for example secrets that clients.json names. */
  readonly env?: Readonly<Record<string, string>>
  /** Starts an HTTPS listener too, which trusts what `certificate` makes. Default: false. */
  readonly https?: boolean
}

interface TokenOptions {
  /** `sub`. Default: `user-1`, or `client` when only that is given. */
  readonly subject?: string
  /** `client_id`: the user's app, or without `subject` the machine. */
  readonly client?: string
  /** Separated by spaces, or a list. Default: none. */
  readonly scope?: string | readonly string[]
  /** `sid`, which `X-Revoke-Session` names. Default: a new one for a user. */
  readonly session?: string
  /** Default: 600. Negative: expired. */
  readonly lifetimeSeconds?: number
  /** Further claims, which take precedence. */
  readonly claims?: Readonly<Record<string, unknown>>
}

export interface TestGateway {
  readonly url: string
  /** Undefined without an HTTPS listener. */
  readonly httpsUrl: string | undefined
  readonly adminUrl: string
  readonly log: readonly LogLine[]
  /** An access token that the gateway accepts. */
  token(options?: TokenOptions): Promise<string>
  /** A certificate that the gateway trusts. @throws Error without `https` */
  certificate(options: { readonly subject: string; readonly sanUri?: string }): Promise<ClientCertificate>
  /** The headers of an accepted webhook. */
  webhook(webhook: Webhook): Record<string, string>
  /** The audit records so far; with an id those of one request. */
  audit(requestId?: string): AuditRecord[]
  /** Ends the gateway by SIGTERM, without the grace. @throws Error with its log, when it ends with a fault */
  stop(): Promise<void>
}

/** The command of the sources or of the package. Any Node from 18 on can run it. */
const COMMAND = ['../cli/countersign.mjs', '../../../cli/countersign.mjs']
  .map((path) => fileURLToPath(new URL(path, import.meta.url)))
  .find(existsSync) as string
const DEFAULT_ISSUER = 'http://localhost:8080'

/** Starts a gateway and waits until it serves. @throws Error with the gateway's words when it cannot start */
export async function startGateway(options: GatewayOptions = {}): Promise<TestGateway> {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-'))
  try {
    return await startIn(dir, options)
  } catch (fault) {
    rmSync(dir, { recursive: true, force: true })
    throw fault
  }
}

async function startIn(dir: string, options: GatewayOptions): Promise<TestGateway> {
  const issuer = await createIssuer()
  const keys = await serveKeys(issuer)
  const authority = options.https === true ? await makeAuthority(dir) : undefined
  const env = environmentOf(dir, options, keys, authority)
  const program = startProgram([COMMAND, 'run'], { env })
  const stop = async () => {
    keys.close()
    const code = await program.end('SIGTERM')
    rmSync(dir, { recursive: true, force: true })
    if (code !== 0) throw new Error(`the gateway ended with ${code}:\n${logOf(program)}`)
  }
  const started = await program
    .line(({ msg }) => msg === 'listening')
    .catch(async () => {
      keys.close()
      await program.ended
      throw new Error(`the gateway cannot start: ${program.plain() || logOf(program)}`)
    })
  const { GATEWAY_CONFIG = '', GATEWAY_AUDIT_FILE = '' } = env
  const names = namesOf(GATEWAY_CONFIG, env)
  const { port, tlsPort, adminPort } = started
  return {
    url: `http://127.0.0.1:${port}`,
    httpsUrl: tlsPort === undefined ? undefined : `https://localhost:${tlsPort}`,
    adminUrl: `http://127.0.0.1:${adminPort}`,
    log: program.lines,
    token: (wish = {}) => issuer.token({ ...names, ...claimsOf(wish) }),
    certificate: async (wish) => {
      if (authority === undefined) throw new Error('start the gateway with `https: true`')
      return authority.issue(wish)
    },
    webhook: webhookHeaders,
    audit: (requestId) =>
      readAudit(GATEWAY_AUDIT_FILE).filter((one) => requestId === undefined || one.requestId === requestId),
    stop,
  }
}

/** Loads test-authority.ts only here, because the package does not depend on what issues certificates. */
async function makeAuthority(dir: string): Promise<AuthorityFiles> {
  const { makeAuthorityFiles } = await import('./test-authority.ts').catch((error) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new Error('`https` issues certificates: npm install --save-dev @peculiar/x509 reflect-metadata')
  })
  return makeAuthorityFiles(dir)
}

function environmentOf(
  dir: string,
  options: GatewayOptions,
  keys: Server,
  authority: AuthorityFiles | undefined,
): Record<string, string> {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE, NODE_V8_COVERAGE } = process.env
  return {
    PATH,
    HOME,
    ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }),
    ...(NODE_V8_COVERAGE !== undefined && { NODE_V8_COVERAGE }),
    ...writeConfiguration(dir, options),
    GATEWAY_DRAIN_GRACE_MS: '0',
    GATEWAY_JWKS_URI: `http://127.0.0.1:${(keys.address() as AddressInfo).port}/jwks.json`,
    ...(options.upstream !== undefined && { GATEWAY_UPSTREAM: options.upstream }),
    ...authority?.env,
    ...options.env,
  }
}

/** Publishes the keys of the tokens. Keeps no test running. */
async function serveKeys({ jwks }: TestIssuer): Promise<Server> {
  const server = createServer((_req, res) => {
    res.setHeader('content-type', 'application/json').end(JSON.stringify(jwks))
  })
  server.listen(0, '127.0.0.1').unref()
  await once(server, 'listening')
  return server
}

/** `iss` and `aud` as the gateway wants them. */
function namesOf(configFile: string, env: Readonly<Record<string, string>>) {
  const config = JSON.parse(readFileSync(configFile, 'utf8')) as {
    issuer?: string
    audience?: string | string[]
  }
  const iss = env.GATEWAY_ISSUER ?? config.issuer ?? DEFAULT_ISSUER
  return { iss, aud: env.GATEWAY_AUDIENCE ?? config.audience ?? `${iss}/api` }
}

function claimsOf({ subject, client, scope = [], session, lifetimeSeconds = 600, claims }: TokenOptions) {
  const nowSeconds = Math.floor(Date.now() / 1000)
  const isMachine = subject === undefined && client !== undefined
  return {
    sub: subject ?? client ?? 'user-1',
    // The `client_id` of a user's own session.
    client_id: client ?? 'session',
    sid: isMachine ? undefined : (session ?? crypto.randomUUID()),
    // RFC 6749 has no empty scope.
    scope: (typeof scope === 'string' ? scope : scope.join(' ')) || undefined,
    iat: nowSeconds + Math.min(lifetimeSeconds, 0),
    exp: nowSeconds + lifetimeSeconds,
    ...claims,
  }
}

function logOf(program: RunningProcess): string {
  return [program.plain(), ...program.lines.map((line) => JSON.stringify(line))].join('\n')
}

export interface Webhook {
  /** `hmac.keyId` in clients.json. */
  readonly keyId: string
  /** `whsec_` and the key in base64, as clients.json's variable or file has it. */
  readonly secret: string
  /** Exactly as sent. */
  readonly body: string | Buffer
  /** Default: new. The same id, time and body again are a replay. */
  readonly id?: string
  /** Epoch seconds; default: now. */
  readonly timestamp?: number
}

function webhookHeaders({ keyId, secret, body, ...rest }: Webhook): Record<string, string> {
  const { id = `msg_${randomUUID()}`, timestamp = Math.floor(Date.now() / 1000) } = rest
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')
  return {
    'x-api-key': keyId,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${signature}`,
  }
}
