import type { FastifyRequest } from 'fastify'
import { Problem } from './problems.ts'

type WithHeaders = Pick<FastifyRequest, 'headers'>

export const ID_PATTERN = '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
const UUID = new RegExp(ID_PATTERN)

/** True for a text in the form of our ids. The database refuses any other text. */
export function isId(text: string): boolean {
  return UUID.test(text)
}

/** The headers are trusted, because only the gateway reaches this program (gateway-secret.ts). */
export function callerOf({ headers }: WithHeaders) {
  const single = (name: string) => {
    const value = headers[name]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  return {
    /** Absent for machine callers. */
    subject: single('x-auth-subject'),
    /** The machine caller, or the OAuth client acting for the user. */
    client: single('x-auth-client'),
    scopes: new Set(single('x-auth-scope')?.split(' ')),
    /** The bearer token's session; absent for other credentials. */
    session: single('x-auth-session'),
    /** `bearer`, `mtls` or `hmac`. */
    method: single('x-auth-method'),
  }
}

/** Returns the calling user's id; throws 401 when the caller is no user. */
export function requireUser(request: WithHeaders): string {
  const { subject } = callerOf(request)
  // A subject of another issuer is none of our users.
  if (subject === undefined || !isId(subject)) throw new Problem('unauthenticated')
  return subject
}

/**
 * Returns the calling user's id; throws 401 without a user, 403 without the scope. The gateway checks the scope too, but money
 * must not depend on its configuration.
 */
export function requireUserWith(request: WithHeaders, scope: string): string {
  const userId = requireUser(request)
  requireScope(request, scope)
  return userId
}

/** Throws 401 when neither a user nor a machine was authenticated. */
export function requirePrincipal(request: WithHeaders): void {
  const { subject, client } = callerOf(request)
  if (subject === undefined && client === undefined) throw new Problem('unauthenticated')
}

export function requireScope(request: WithHeaders, scope: string): void {
  requirePrincipal(request)
  if (!callerOf(request).scopes.has(scope)) throw new Problem('forbidden')
}

export const USERS_ADMIN = 'users:admin'

/** The scope with which an application sees and changes its user's record. */
export const PROFILE_WRITE = 'profile:write'

/**
 * Lets users reach their own record, in person or through an application with `profile:write`; holders of `users:admin` reach
 * every record. Others get 403 (401 without a principal), whether or not the record exists.
 */
export function requireRecord(request: WithHeaders, userId: string): void {
  requirePrincipal(request)
  const { subject, client, scopes, session, method } = callerOf(request)
  // Sessions opened by a password have a UUID as id, grants do not. For OAuth tokens the gateway names a client.
  const inPerson = method === 'bearer' && client === undefined && session !== undefined && isId(session)
  const mayOwn = subject === userId && (inPerson || scopes.has(PROFILE_WRITE))
  if (!mayOwn && !scopes.has(USERS_ADMIN)) throw new Problem('forbidden')
}
