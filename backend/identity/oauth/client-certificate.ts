import { X509Certificate } from 'node:crypto'

/**
 * Reads a `Client-Cert` header (RFC 9440 section 2.1). Only the gateway sets it, after it has verified the chain.
 * Returns `undefined` when the header is missing or malformed.
 */
export function clientCertificate(header: string | string[] | undefined): X509Certificate | undefined {
  const encoded = typeof header === 'string' ? /^:([A-Za-z0-9+/]+={0,2}):$/.exec(header)?.[1] : undefined
  if (encoded === undefined) return undefined
  try {
    return new X509Certificate(Buffer.from(encoded, 'base64'))
  } catch {
    return undefined
  }
}

/** The names by which a client may be registered (RFC 8705 section 2.1.2). */
export const CERTIFICATE_NAMES = ['tls_client_auth_san_dns', 'tls_client_auth_san_uri'] as const

/** True when the certificate has this registered name. */
export function certificateNames(certificate: X509Certificate, property: string, expected: string): boolean {
  const kind = { tls_client_auth_san_dns: 'DNS', tls_client_auth_san_uri: 'URI' }[property]
  // Node quotes names that could be misread; they match no client.
  const names = certificate.subjectAltName?.split(', ') ?? []
  // RFC 5280 section 7.2: DNS names have no case.
  const comparable = (name: string) => (kind === 'DNS' ? name.toLowerCase() : name)
  return kind !== undefined && names.map(comparable).includes(comparable(`${kind}:${expected}`))
}

/** The client metadata that lists the issuers of its certificates. Default: any that the gateway accepts. */
export const CERTIFICATE_ISSUERS = 'tls_client_auth_issuers'

/** Reads a list of CA certificates in base64 DER, as in `x5c`. Returns `undefined` for anything else. */
export function readIssuers(listed: unknown): readonly X509Certificate[] | undefined {
  if (!Array.isArray(listed) || listed.length === 0) return undefined
  try {
    const issuers = listed.map((encoded) => new X509Certificate(Buffer.from(encoded, 'base64')))
    return issuers.every(({ ca }) => ca) ? issuers : undefined
  } catch {
    return undefined
  }
}

/** True when a listed authority issued the certificate, or none is listed. The gateway has checked time and revocation. */
export function isIssuedByOneOf(listed: unknown, certificate: X509Certificate): boolean {
  if (listed === undefined) return true
  const issuers = readIssuers(listed) ?? []
  return issuers.some((issuer) => certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey))
}
