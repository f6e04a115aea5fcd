import type { X509Certificate } from 'node:crypto'
import { fieldsOf } from '../../asn1/certificate.ts'
import { membersIn, oidOf, TAG } from '../../asn1/der.ts'

const NO_NAMES = { dns: [], uri: [] }
/** One name. Node quotes it like JSON when it holds characters that could look like its end (CVE-2021-44532). */
const NAME = /([A-Za-z][A-Za-z0-9 ]*):(?:"((?:[^"\\]|\\.)*)"|([^",]*))(?:, |$)/y

/** An RFC 4514 string, such as `CN=bank-b,O=Bank B,C=DE`. Characters beyond ASCII stay. */
export function subjectOf(certificate: X509Certificate): string {
  // Node gives one line per name, least specific first, and escapes line breaks and plus signs in values.
  return (certificate.subject ?? '').split('\n').reverse().join(',').replaceAll(' + ', '+')
}

const ORGANIZATION_IDENTIFIER = '2.5.4.97'

/** The one organizationIdentifier (ETSI EN 319 412-1 section 5.1.4); undefined: none, or several. */
export function organizationIdentifierOf(certificate: { readonly raw: Buffer }): string | undefined {
  const { subject } = fieldsOf(certificate)
  const found = subject
    .members()
    .flatMap((names) => membersIn(names, TAG.set))
    .map((name) => membersIn(name, TAG.sequence))
    .filter(([type]) => oidOf(type) === ORGANIZATION_IDENTIFIER)
  const value = found[0]?.[1]
  const isText = value?.tag === TAG.utf8 || value?.tag === TAG.printable
  return isText && found.length === 1 ? value.content.toString('latin1') : undefined
}

/** No names when the extension cannot be parsed completely. */
export function alternativeNamesOf(certificate: X509Certificate): {
  readonly dns: readonly string[]
  readonly uri: readonly string[]
} {
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

const BYTE_SEQUENCE = /^:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?:$/

/** Value of `Client-Cert` (RFC 9440 section 2.2). */
export function clientCertHeader(der: Buffer): string {
  return `:${der.toString('base64')}:`
}

export function isClientCertHeader(value: string): boolean {
  return value !== '::' && BYTE_SEQUENCE.test(value)
}
