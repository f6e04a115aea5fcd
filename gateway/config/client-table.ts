import type { KeyObject } from 'node:crypto'
import type { Principal } from '../principal.ts'

/** Where a secret is. */
export type SecretPlace = { readonly env: string } | { readonly file: string }

/** By what a client's certificate is known. */
export type CertificateIdentity = (
  | { readonly thumbprint: string }
  | { readonly sanDns: string }
  | { readonly sanUri: string }
  | { readonly subject: string }
) & {
  /** Subject or thumbprint of the authority that must have issued it; one of several will do. */
  readonly issuer?: string | readonly string[]
}

/** One entry of config/clients.json, as it was written. Without secrets: fit for the audit trail. Immutable. */
export interface ClientRow {
  readonly id: string
  readonly scopes: readonly string[]
  readonly mtls?: CertificateIdentity
  readonly hmac?: { readonly keyId: string; readonly secrets: readonly SecretPlace[] }
}

/** The key with which one client signs its webhooks. Immutable. */
export interface WebhookKey {
  readonly keyId: string
  /** Whom a signature proves. */
  readonly principal: Principal
  /** At least one; each may have signed. As key objects, which no log and no JSON can show. */
  readonly secrets: readonly KeyObject[]
}

/**
 * The machine callers: config/clients.json with its secrets, ready for look-up. Nothing but data, so that two tables
 * can be compared; immutable, so that one can take the place of another.
 */
export interface ClientTable {
  /** In the order of the file. */
  readonly rows: readonly ClientRow[]
  /** By `X-API-Key`. */
  readonly byKeyId: ReadonlyMap<string, WebhookKey>
  /** By SHA-256 of the certificate's DER: 64 hexadecimal digits in lower case, no colons. */
  readonly byThumbprint: ReadonlyMap<string, Principal>
  /** By a DNS name of its subject alternative names, in lower case. */
  readonly bySanDns: ReadonlyMap<string, Principal>
  /** By a URI of its subject alternative names, as it stands there. */
  readonly bySanUri: ReadonlyMap<string, Principal>
  /** By the whole subject, as `canonicalName` of distinguished-name.ts spells it. */
  readonly bySubject: ReadonlyMap<string, Principal>
  /** By the id of a client: the authorities of which one must have issued its certificate, each as a thumbprint or a canonical name. */
  readonly issuers: ReadonlyMap<string, readonly string[]>
}
