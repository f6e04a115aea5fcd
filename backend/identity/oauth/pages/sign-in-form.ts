import type { App } from '../../../services.ts'

export const FORM = 'application/x-www-form-urlencoded'

/** The path of POST /api/login, so that one row of limits counts both ways to sign in. */
export const SIGN_IN_FORM_PATH = '/api/login'

type ConstraintStrategy = Parameters<App['addConstraintStrategy']>[0]
type Handler = ReturnType<ReturnType<ConstraintStrategy['storage']>['get']>

/** Lets a route have the constraint `{ body: 'form' }`. */
export const byBody: ConstraintStrategy = {
  name: 'body',
  storage: () => {
    const handlers = new Map<unknown, Handler>()
    return {
      get: (kind) => handlers.get(kind) ?? null,
      set: (kind, handler) => void handlers.set(kind, handler),
    }
  },
  deriveConstraint: ({ headers }) =>
    headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === FORM ? 'form' : undefined,
}

/** Makes a `Set-Cookie` value (RFC 6265 section 4.1). Browsers send the cookie only to the sign-in form's path. */
export function signInCookie(
  publicUrl: string,
  cookie: { readonly name: string; readonly value: string; readonly seconds: number },
): string {
  const secure = publicUrl.startsWith('https:') ? '; Secure' : ''
  const { name, value, seconds } = cookie
  return `${name}=${value}; Path=${SIGN_IN_FORM_PATH}; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`
}

/** Reads a cookie from a Cookie header (RFC 6265 section 4.2.1). */
export function cookieOf(header: string | undefined, name: string): string | undefined {
  for (const pair of header?.split(';') ?? []) {
    const [key = '', ...value] = pair.split('=')
    if (key.trim() === name) return value.join('=').trim()
  }
  return undefined
}
