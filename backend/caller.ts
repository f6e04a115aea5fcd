import type { FastifyRequest } from 'fastify'
import { Problem } from './problems.ts'

/**
 * The caller, as the gateway's headers name it. The gateway removes such headers from requests and writes its own; and only
 * the gateway reaches this program, or proves itself to it (gateway-secret.ts). So they are trusted.
 */
export interface Caller {
  /** The user's id; absent for machine callers. */
  readonly subject: string | undefined
  /** The machine caller, or the OAuth client that acts for the user. */
  readonly client: string | undefined
  readonly scopes: ReadonlySet<string>
  /** The session of a bearer token; absent for other credentials. */
  readonly session: string | undefined
  /** How the caller proved who it is: `bearer`, `mtls` or `hmac`. */
  readonly method: string | undefined
}

/** The form of our ids, for schemas. */
export const ID_PATTERN = '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
const UUID = new RegExp(ID_PATTERN)

/** Whether a text has the form of our ids. Any other text matches no row, and the database would refuse it. */
export function isId(text: string): boolean {
  return UUID.test(text)
}

/** The caller of a request, from the headers of the gateway. */
export function callerOf(request: FastifyRequest): Caller {
  return {
    subject: single(request, 'x-auth-subject'),
    client: single(request, 'x-auth-client'),
    scopes: new Set(single(request, 'x-auth-scope')?.split(' ')),
    session: single(request, 'x-auth-session'),
    method: single(request, 'x-auth-method'),
  }
}

function single(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** The id of the calling user; throws the 401 problem when the caller is not a user. */
export function requireUser(request: FastifyRequest): string {
  const { subject } = callerOf(request)
  // A subject of another issuer is not one of our users.
  if (subject === undefined || !isId(subject)) throw new Problem('unauthenticated')
  return subject
}

/**
 * The same for a resource that is granted by a scope; throws 403 without it. The gateway's route requires the
 * scope too, but a user's money must not depend on a row of a configuration file.
 */
export function requireUserWith(request: FastifyRequest, scope: string): string {
  const userId = requireUser(request)
  requireScope(request, scope)
  return userId
}

/** Throws the 401 problem when neither a user nor a machine was authenticated. */
export function requirePrincipal(request: FastifyRequest): void {
  const { subject, client } = callerOf(request)
  if (subject === undefined && client === undefined) throw new Problem('unauthenticated')
}

/** Throws 401 without a principal, 403 without the scope. */
export function requireScope(request: FastifyRequest, scope: string): void {
  requirePrincipal(request)
  if (!callerOf(request).scopes.has(scope)) throw new Problem('forbidden')
}

/** The scope for the records of other users. */
export const USERS_ADMIN = 'users:admin'

/** What an application needs to see and change the record of the user who granted it. */
export const PROFILE_WRITE = 'profile:write'

/**
 * Lets a user at its own record and holders of `users:admin` at every one. An application that acts for the user needs
 * `profile:write`: its other scopes say nothing of the record. For everybody else it throws the 403 problem whether or
 * not the record exists, so that ids cannot be probed; 401 without a principal.
 */
export function requireRecord(request: FastifyRequest, userId: string): void {
  requirePrincipal(request)
  const caller = callerOf(request)
  if (caller.scopes.has(USERS_ADMIN)) return
  const isOwn = caller.subject === userId
  if (!isOwn || !(isFirstParty(caller) || caller.scopes.has(PROFILE_WRITE))) throw new Problem('forbidden')
}

/**
 * Whether the user calls in person, from a session that its password opened. Both must hold: the gateway names no client
 * (it does for OAuth tokens, whose clients cannot be called `session`, see clients.ts), and the session is a UUID (grants are
 * not). The client controls neither.
 */
function isFirstParty({ method, client, session }: Caller): boolean {
  return method === 'bearer' && client === undefined && session !== undefined && isId(session)
}
