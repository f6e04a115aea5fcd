/**
 * Value of the `Client-Cert` header (RFC 9440 section 2.2): the certificate's DER as a byte sequence of structured
 * fields (RFC 8941 section 3.3.5). Only for a certificate that was authorized; an inbound header of that name is
 * removed, unless a trusted proxy has sent it that has no certificate of its own.
 */
export function clientCertHeader(der: Buffer): string {
  return `:${der.toString('base64')}:`
}
