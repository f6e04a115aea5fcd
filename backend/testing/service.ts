import type { InjectOptions } from 'fastify'
import pino from 'pino'
import { buildApp } from '../app.ts'
import type { Database } from '../database/database.ts'
import { loadSigningKeys, type SigningKeys } from '../identity/keys.ts'
import { loadServerSecrets } from '../identity/secrets.ts'
import { SCOPES_OF_ROLE } from '../identity/session-tokens.ts'
import { fundAccount } from '../money/ledger.ts'
import type { App, Services } from '../services.ts'
import { addUser } from '../user-store.ts'

export const PUBLIC_URL = 'https://api.example.com'

/** A user that a test put straight into the database. */
export interface TestUser {
  readonly id: string
  readonly accountId: string
  readonly email: string
}

/** The backend over a test database, with a clock that only moves when told. */
export interface TestService {
  readonly app: App
  readonly database: Database
  readonly keys: SigningKeys
  /** One object a line. */
  readonly log: readonly Record<string, unknown>[]
  now: () => Date
  advance: (ms: number) => void
  addUser: (options?: {
    name?: string
    email?: string
    passwordHash?: string
    balanceMinor?: bigint
  }) => Promise<TestUser>
  /** Sends a request as the gateway would for this caller, and parses the response's body. */
  send: (request: TestRequest) => Promise<TestResponse>
}

export interface TestRequest extends Pick<InjectOptions, 'method' | 'payload'> {
  readonly url: string
  readonly headers?: Record<string, string>
  /** A user, by default in a session with the scopes that every user holds. */
  readonly as?: { readonly id: string }
  /** The OAuth client acting for the user; its token holds only `scope`. */
  readonly client?: string
  readonly scope?: string
  /** Empty for a token without session. */
  readonly session?: string
}

export interface TestResponse {
  readonly status: number
  readonly headers: Record<string, string | string[] | number | undefined>
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
  readonly body: any
  readonly text: string
}

let userNumber = 0

export async function startTestService(
  database: Database,
  own: Partial<
    Pick<Services, 'publicUrl' | 'mtlsUrl' | 'clock' | 'clients' | 'gatewaySecret' | 'webhookClientMaxBytes'>
  > = {},
): Promise<TestService> {
  let nowMs = Date.parse('2026-03-01T12:00:00Z')
  const clock = own.clock ?? (() => new Date(nowMs))
  const log: Record<string, unknown>[] = []
  const logger = pino({ level: 'info' }, { write: (line) => void log.push(JSON.parse(line)) })
  const services = {
    database,
    keys: await loadSigningKeys(database, clock),
    secrets: await loadServerSecrets(database),
    clients: own.clients ?? [],
    gatewaySecret: own.gatewaySecret,
    publicUrl: own.publicUrl ?? PUBLIC_URL,
    mtlsUrl: own.mtlsUrl,
    webhookClientMaxBytes: own.webhookClientMaxBytes ?? 2 ** 30,
    clock,
  }
  const app = await buildApp(services, logger)
  return {
    app,
    database,
    keys: services.keys,
    log,
    now: clock,
    advance: (ms) => {
      nowMs += ms
    },
    addUser: ({ name = 'Test Person', email, passwordHash, balanceMinor } = {}) =>
      database.transaction(async (transaction) => {
        const address = email ?? `person-${++userNumber}@example.com`
        const added = await addUser(
          transaction,
          { name, email: address, passwordHash, role: 'user' },
          clock(),
        )
        if (added === 'email_taken') throw new Error(`${address} is taken`)
        if (balanceMinor)
          await fundAccount(transaction, { id: added.accountId, amountMinor: balanceMinor }, clock())
        return { id: added.user.id, accountId: added.accountId, email: address }
      }),
    send: (request) => send(app, request),
  }
}

/** An id in the form of a session that a login opened. No row has this id. */
const SOME_SESSION = '01890a5d-ac96-774b-bcce-b302099a8058'
const SOME_GRANT = 'xGt3FmJ0wYc5V5bJ0y8m9QzQ0bX8q1n2k3l4m5n6o7p'

async function send(app: App, { as, headers, ...rest }: TestRequest): Promise<TestResponse> {
  const { client, scope, session, ...request } = rest
  const response = await app.inject({
    ...request,
    headers: {
      ...(as && {
        'x-auth-subject': as.id,
        'x-auth-method': 'bearer',
        'x-auth-scope': client === undefined ? SCOPES_OF_ROLE.user : '',
        'x-auth-session': client === undefined ? SOME_SESSION : SOME_GRANT,
      }),
      ...(client !== undefined && { 'x-auth-client': client }),
      ...(scope !== undefined && { 'x-auth-scope': scope }),
      ...(session !== undefined && { 'x-auth-session': session }),
      ...headers,
    },
  })
  const isJson = String(response.headers['content-type']).includes('json')
  return {
    status: response.statusCode,
    headers: response.headers,
    body: isJson ? response.json() : undefined,
    text: response.body,
  }
}
