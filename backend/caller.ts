import type { FastifyRequest } from 'fastify'
import { Problem } from './problems.ts'

type WithHeaders = Pick<FastifyRequest, 'headers'>

/** The form of our ids, for schemas. */
export const ID_PATTERN = '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
const UUID = new RegExp(ID_PATTERN)

/** True when a text has the form of our ids. Any other text matches no row, and the database would refuse it. */
export function isId(text: string): boolean {
  return UUID.test(text)
}

/**
 * The caller, as the gateway's headers name it. The gateway removes such headers from requests and writes its own; and only
 * the gateway reaches this program, or proves itself to it (gateway-secret.ts). So they are trusted.
 */
export function callerOf({ headers }: WithHeaders) {
  const single = (name: string) => {
    const value = headers[name]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  return {
    /** The user's id; absent for machine callers. */
    subject: single('x-auth-subject'),
    /** The machine caller, or the OAuth client that acts for the user. */
    client: single('x-auth-client'),
    scopes: new Set(single('x-auth-scope')?.split(' ')),
    /** The session of a bearer token; absent for other credentials. */
    session: single('x-auth-session'),
    /** How the caller proved who it is: `bearer`, `mtls` or `hmac`. */
    method: single('x-auth-method'),
  }
}

/** The id of the calling user; throws the 401 problem when the caller is not a user. */
export function requireUser(request: WithHeaders): string {
  const { subject } = callerOf(request)
  // A subject of another issuer is not one of our users.
  if (subject === undefined || !isId(subject)) throw new Problem('unauthenticated')
  return subject
}

/**
 * The id of the calling user, for a resource that is granted by a scope; throws 403 without it. The gateway's route requires
 * the scope too, but a user's money must not depend on a row of a configuration file.
 */
export function requireUserWith(request: WithHeaders, scope: string): string {
  const userId = requireUser(request)
  requireScope(request, scope)
  return userId
}

/** Throws the 401 problem when neither a user nor a machine was authenticated. */
export function requirePrincipal(request: WithHeaders): void {
  const { subject, client } = callerOf(request)
  if (subject === undefined && client === undefined) throw new Problem('unauthenticated')
}

/** Throws 401 without a principal, 403 without the scope. */
export function requireScope(request: WithHeaders, scope: string): void {
  requirePrincipal(request)
  if (!callerOf(request).scopes.has(scope)) throw new Problem('forbidden')
}

/** The scope for the records of other users. */
export const USERS_ADMIN = 'users:admin'

/** The scope that an application needs to see and change the record of the user who granted it. */
export const PROFILE_WRITE = 'profile:write'

/**
 * Lets a user at its own record and holders of `users:admin` at every one. An application that acts for the user needs
 * `profile:write`: its other scopes say nothing of the record. For everybody else it throws the 403 problem whether or
 * not the record exists, so that ids cannot be probed; 401 without a principal.
 */
export function requireRecord(request: WithHeaders, userId: string): void {
  requirePrincipal(request)
  const { subject, client, scopes, session, method } = callerOf(request)
  // Who calls in person, from a session that a password opened: the gateway names no client (it does for OAuth tokens, whose
  // clients cannot be called `session`, see clients.ts), and the session is a UUID (grants are not). The client controls neither.
  const inPerson = method === 'bearer' && client === undefined && session !== undefined && isId(session)
  const mayOwn = subject === userId && (inPerson || scopes.has(PROFILE_WRITE))
  if (!mayOwn && !scopes.has(USERS_ADMIN)) throw new Problem('forbidden')
}
