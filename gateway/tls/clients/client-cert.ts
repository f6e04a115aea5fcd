const BYTE_SEQUENCE = /^:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?:$/

/**
 * Value of the `Client-Cert` header (RFC 9440 section 2.2): the certificate's DER as a byte sequence of structured
 * fields (RFC 8941 section 3.3.5). Only for an authorized certificate.
 */
export function clientCertHeader(der: Buffer): string {
  return `:${der.toString('base64')}:`
}

/** Whether a value is a non-empty byte sequence as `clientCertHeader` makes it. */
export function isClientCertHeader(value: string): boolean {
  return value !== '::' && BYTE_SEQUENCE.test(value)
}
