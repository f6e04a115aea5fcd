import type { FastifyRequest } from 'fastify'
import { Problem } from './problems.ts'

type WithHeaders = Pick<FastifyRequest, 'headers'>

/** The form of our ids, for schemas. */
export const ID_PATTERN = '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
const UUID = new RegExp(ID_PATTERN)

/** True when a text has the form of our ids. The database refuses any other. */
export function isId(text: string): boolean {
  return UUID.test(text)
}

/** The caller that the headers name. They are trusted: nobody but the gateway reaches this program (gateway-secret.ts). */
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
 * The id of the calling user; throws 401 without a user, 403 without the scope. The gateway requires the scope too, but money
 * must not depend on a row of its configuration.
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
 * Lets users reach their own record, in person or through an application with `profile:write`. Holders of `users:admin`
 * reach every record. Everybody else gets 403 (401 without a principal), whether or not the record exists.
 */
export function requireRecord(request: WithHeaders, userId: string): void {
  requirePrincipal(request)
  const { subject, client, scopes, session, method } = callerOf(request)
  // Sessions that a password opened have a UUID as their id, grants do not. For OAuth tokens the gateway names a client.
  const inPerson = method === 'bearer' && client === undefined && session !== undefined && isId(session)
  const mayOwn = subject === userId && (inPerson || scopes.has(PROFILE_WRITE))
  if (!mayOwn && !scopes.has(USERS_ADMIN)) throw new Problem('forbidden')
}
