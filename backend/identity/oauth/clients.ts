import { generateKeyPairSync, randomUUID, type webcrypto } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ClientMetadata } from 'oidc-provider'
import { PROFILE_WRITE, USERS_ADMIN } from '../../caller.ts'
import type { Queryable } from '../../database/database.ts'
import { sharedSecret } from '../secrets.ts'
import { SESSION_CLIENT } from '../session-tokens.ts'
import { DEFAULT_CLIENT_SCOPE } from './scopes.ts'

const PORTAL_KEY_FILE = 'bank-portal.private.jwk.json'

/** Loads the OAuth clients. Throws when the file cannot be read or is no list; the authorization server checks the metadata. */
export async function loadClients({
  file,
  demo,
  dataDirectory,
  database,
}: {
  /** A JSON list of client metadata (RFC 7591 section 2). */
  readonly file: string | undefined
  readonly demo: boolean
  /** Where the key of the demo client `bank-portal` is written for users. */
  readonly dataDirectory: string
  /** The key of `bank-portal` is the same for all backends on this database. */
  readonly database: Queryable
}): Promise<ClientMetadata[]> {
  const registered = file === undefined ? [] : await readClients(file)
  if (!demo) return registered
  const taken = new Set(registered.map((client) => client.client_id))
  const portalKey = await demoKey(database, join(dataDirectory, PORTAL_KEY_FILE))
  // A client in the file replaces ours with the same id.
  return [...registered, ...demoClients(portalKey).filter((client) => !taken.has(client.client_id))]
}

async function readClients(file: string): Promise<ClientMetadata[]> {
  let clients: ClientMetadata[]
  try {
    clients = JSON.parse(await readFile(file, 'utf8'))
  } catch (cause) {
    throw new Error(`BACKEND_OAUTH_CLIENTS: ${file} cannot be read: ${(cause as Error).message}`, { cause })
  }
  const isList = Array.isArray(clients) && clients.every((client) => typeof client?.client_id === 'string')
  if (!isList || new Set(clients.map(({ client_id }) => client_id)).size < clients.length)
    throw new Error(
      `BACKEND_OAUTH_CLIENTS: ${file} must be a list of clients, each with a client_id of its own`,
    )
  // The gateway would take this client's tokens for those of a session, which may do more.
  if (clients.some(({ client_id }) => client_id === SESSION_CLIENT))
    throw new Error(`BACKEND_OAUTH_CLIENTS: ${file}: no client may be called "${SESSION_CLIENT}"`)
  return clients
}

function demoClients(portalKey: webcrypto.JsonWebKey): ClientMetadata[] {
  return [
    {
      client_id: 'mobile-app',
      client_name: 'Example Mobile App',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      // RFC 8252 sections 7.1 and 7.3: the app's own scheme, or loopback with any port.
      redirect_uris: ['http://127.0.0.1/callback', 'com.example.app:/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      scope: `${DEFAULT_CLIENT_SCOPE} ${PROFILE_WRITE}`,
    },
    {
      client_id: 'bank-portal',
      client_name: 'Example Bank Portal',
      application_type: 'web',
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_signing_alg: 'ES256',
      redirect_uris: ['https://portal.example.com/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      scope: `${DEFAULT_CLIENT_SCOPE} ${PROFILE_WRITE} ${USERS_ADMIN}`,
      jwks: { keys: [portalKey as never] },
    },
  ]
}

/** Returns the demo key's public half. The first backend stores the key in the database; each writes it into `file`. */
async function demoKey(database: Queryable, file: string): Promise<webcrypto.JsonWebKey> {
  const own = await readKey(file)
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const candidate = Buffer.from(own ?? JSON.stringify(privateKey.export({ format: 'jwk' })))
  const key = String(await sharedSecret(database, 'portal_key', candidate))
  if (own !== key) {
    await mkdir(dirname(file), { recursive: true })
    // A killed process leaves no empty file. Backends may share the directory.
    const written = `${file}.${randomUUID()}.tmp`
    await writeFile(written, `${key}\n`, { mode: 0o600, flush: true })
    await rename(written, file)
  }
  const { kty = 'EC', crv = '', x = '', y = '' } = JSON.parse(key) as webcrypto.JsonWebKey
  return { kty, crv, x, y, use: 'sig', alg: 'ES256' }
}

/** Removes the demo client's private key, so that the next {@link loadClients} makes a new one. */
export async function removePortalKey(dataDirectory: string): Promise<void> {
  await rm(join(dataDirectory, PORTAL_KEY_FILE), { force: true })
}

async function readKey(file: string): Promise<string | undefined> {
  try {
    return JSON.stringify(JSON.parse(await readFile(file, 'utf8')))
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Error(`${file} is no key: ${(fault as Error).message}`, { cause: fault })
  }
}
