import { X509Certificate } from 'node:crypto'

/**
 * The client certificate in a `Client-Cert` header (RFC 9440 section 2.1: `:base64:`), which only the gateway sets, after it has
 * verified the chain. `undefined` when it is missing or malformed.
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

/** The names that a client may be registered by (RFC 8705 section 2.1.2); others are not compared. */
export const CERTIFICATE_NAMES = ['tls_client_auth_san_dns', 'tls_client_auth_san_uri'] as const

/** True when the certificate has the registered name of a client. Only {@link CERTIFICATE_NAMES} ever match. */
export function certificateNames(certificate: X509Certificate, property: string, expected: string): boolean {
  const kind = { tls_client_auth_san_dns: 'DNS', tls_client_auth_san_uri: 'URI' }[property]
  // Node quotes a name that could be misread; such a name matches no client.
  const names = certificate.subjectAltName?.split(', ') ?? []
  // RFC 5280 section 7.2: DNS names have no case.
  const comparable = (name: string) => (kind === 'DNS' ? name.toLowerCase() : name)
  return kind !== undefined && names.map(comparable).includes(comparable(`${kind}:${expected}`))
}

/** The member of a client's metadata that lists the authorities of its certificates. Default: any that the gateway accepts. */
export const CERTIFICATE_ISSUERS = 'tls_client_auth_issuers'

/** Reads a list of certificates of authorities in base64 (DER, as in `x5c`); `undefined` when it is anything else. */
export function readIssuers(listed: unknown): readonly X509Certificate[] | undefined {
  if (!Array.isArray(listed) || listed.length === 0) return undefined
  try {
    const issuers = listed.map((encoded) => new X509Certificate(Buffer.from(encoded, 'base64')))
    return issuers.every(({ ca }) => ca) ? issuers : undefined
  } catch {
    return undefined
  }
}

/** True when a listed authority issued the certificate, or none is listed. The gateway has checked its time and revocation. */
export function isIssuedByOneOf(listed: unknown, certificate: X509Certificate): boolean {
  if (listed === undefined) return true
  const issuers = readIssuers(listed) ?? []
  return issuers.some((issuer) => certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey))
}
