import type OidcProvider from 'oidc-provider'

/** oidc-provider without its warning about Node releases, because standard error is for the log. */
const print = console.warn
console.warn = (...parts: unknown[]) => {
  if (!String(parts[0]).includes('Unsupported runtime')) print(...parts)
}
const library = await import('oidc-provider')
console.warn = print

export const Provider = library.default
export type Provider = OidcProvider
export const { errors } = library
