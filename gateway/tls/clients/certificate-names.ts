import type { X509Certificate } from 'node:crypto'

/** The subject alternative names that callers are known by. */
export interface AlternativeNames {
  /** `dNSName`s in lower case, as they stand: a wildcard is not resolved. */
  readonly dns: readonly string[]
  /** `uniformResourceIdentifier`s, as they stand. */
  readonly uri: readonly string[]
}

const NO_NAMES: AlternativeNames = { dns: [], uri: [] }
/** Node quotes a name like JSON when it holds anything that could be taken for the end of it (CVE-2021-44532). */
const NAME = /([A-Za-z][A-Za-z0-9 ]*):(?:"((?:[^"\\]|\\.)*)"|([^",]*))(?:, |$)/y

/**
 * The subject as an RFC 4514 string, most specific name first: `CN=bank-b,O=Bank B,C=DE`. Special characters are
 * escaped with a backslash (`O=Bank B\, Inc.`), others stand as they are in UTF-8, a name of several parts is joined by
 * `+` in the order of the certificate, and types have OpenSSL's short names, or their number. It is what
 * `openssl x509 -noout -subject -nameopt RFC2253,-esc_msb` prints. Empty when the certificate names nobody.
 */
export function subjectOf(certificate: X509Certificate): string {
  // Node gives a name a line, least specific first; line breaks in values are escaped, and so are their plus signs.
  return (certificate.subject ?? '').split('\n').reverse().join(',').replaceAll(' + ', '+')
}

/** The DNS names and URIs of a certificate; none at all when the extension cannot be read to its end. */
export function alternativeNamesOf(certificate: X509Certificate): AlternativeNames {
  const text = certificate.subjectAltName ?? ''
  const dns: string[] = []
  const uri: string[] = []
  for (NAME.lastIndex = 0; NAME.lastIndex < text.length; ) {
    const found = NAME.exec(text)
    if (found === null) return NO_NAMES
    const [, kind, quoted, bare = ''] = found
    const name = quoted === undefined ? bare : unquoted(quoted)
    if (name === undefined) return NO_NAMES
    if (kind === 'DNS') dns.push(name.toLowerCase())
    else if (kind === 'URI') uri.push(name)
  }
  return { dns, uri }
}

function unquoted(quoted: string): string | undefined {
  try {
    return JSON.parse(`"${quoted}"`)
  } catch {
    return undefined
  }
}
